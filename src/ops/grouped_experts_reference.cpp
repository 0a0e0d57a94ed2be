// grouped_experts in plain tensor operations.
#include <torch/torch.h>

#include "ops/expert_order_cpu.h"
#include "ops/grouped_experts_parts.h"
#include "ops/tensor_values.h"

namespace trine {

void check_expert_inputs(const ExpertInputs& in) {
  const auto &x = in.x_th, &gate_up = in.gate_up_eih, &down = in.down_ehi, &experts = in.experts_tk, &weights = in.weights_tk;
  TORCH_CHECK(x.dim() == 2 && gate_up.dim() == 3 && down.dim() == 3 && experts.dim() == 2,
              "grouped_experts: x [T, H], gate_up [E, 2I, H], down [E, H, I], experts [T, k] expected, found ", x.sym_sizes(), ", ",
              gate_up.sym_sizes(), ", ", down.sym_sizes(), ", ", experts.sym_sizes());
  const c10::SymInt hidden = x.sym_size(1), inner = down.sym_size(2), num_experts = gate_up.sym_size(0);
  TORCH_CHECK(gate_up.sym_size(1) == inner * 2 && gate_up.sym_size(2) == hidden && down.sym_size(0) == num_experts &&
                  down.sym_size(1) == hidden,
              "grouped_experts: for x ", x.sym_sizes(), " and down ", down.sym_sizes(), " gate_up of shape [", down.sym_size(0), ", ",
              inner * 2, ", ", hidden, "] and down's middle size ", hidden, " expected, found gate_up ", gate_up.sym_sizes());
  TORCH_CHECK(experts.sym_size(0) == x.sym_size(0) && experts.sym_size(1) >= 1 && weights.sym_sizes() == experts.sym_sizes(),
              "grouped_experts: experts and weights of shape [", x.sym_size(0), ", k] with k of at least 1 expected, found ",
              experts.sym_sizes(), " and ", weights.sym_sizes());
  TORCH_CHECK(x.is_floating_point() && gate_up.scalar_type() == x.scalar_type() && down.scalar_type() == x.scalar_type(),
              "grouped_experts: gate_up and down of x's floating-point dtype ", x.scalar_type(), " expected, found ",
              gate_up.scalar_type(), " and ", down.scalar_type());
  TORCH_CHECK(experts.scalar_type() == at::kLong && weights.is_floating_point(),
              "grouped_experts: int64 experts and floating-point weights expected, found ", experts.scalar_type(), " and ",
              weights.scalar_type());
}

namespace {

void check_expert_ids(const ExpertInputs& in) {
  if (in.experts_tk.numel() == 0) return;
  const int64_t least = in.experts_tk.min().item<int64_t>(), most = in.experts_tk.max().item<int64_t>();
  TORCH_CHECK_INDEX(least >= 0 && most < in.gate_up_eih.size(0), "grouped_experts: experts from 0 to ", in.gate_up_eih.size(0) - 1,
                    " expected, found ", least < 0 ? least : most);
}

// Choices sorted by expert: the choice in each row, and how many rows each expert has.
struct SortedChoices {
  at::Tensor choice_r, token_r;
  std::vector<int64_t> counts;
};

SortedChoices sort_choices(const ExpertInputs& in) {
  check_expert_inputs(in);
  check_expert_ids(in);
  const at::Tensor experts_r = in.experts_tk.reshape({-1});
  const at::Tensor choice_r = experts_r.argsort(/*stable=*/true, 0, /*descending=*/false);
  const at::Tensor counts = at::bincount(experts_r, {}, in.gate_up_eih.size(0)).cpu();
  return {choice_r, choice_r.floor_divide(in.experts_tk.size(1)),
          std::vector<int64_t>(counts.const_data_ptr<int64_t>(), counts.const_data_ptr<int64_t>() + counts.numel())};
}

void put(const at::Tensor& gradient, const at::Tensor& value, bool add) {
  if (add) {
    gradient.add_(value);
  } else {
    gradient.copy_(value);
  }
}

}  // namespace

at::Tensor plain_expert_loop(const ExpertInputs& in) {
  check_expert_inputs(in);
  check_expert_ids(in);
  const at::ScalarType wide = wide_type(in.x_th);
  const std::vector<at::Tensor> gate_ups = in.gate_up_eih.unbind(0), downs = in.down_ehi.unbind(0);
  at::Tensor y_th = at::zeros(in.x_th.sizes(), in.x_th.options().dtype(wide));
  for (size_t e = 0; e < gate_ups.size(); ++e) {
    const at::Tensor chosen_n2 = in.experts_tk.eq(static_cast<int64_t>(e)).nonzero();
    const at::Tensor token_n = chosen_n2.select(1, 0), choice_n = chosen_n2.select(1, 1);
    const at::Tensor gate_up_n = at::linear(in.x_th.index_select(0, token_n), gate_ups[e]);
    const std::vector<at::Tensor> halves = gate_up_n.chunk(2, -1);
    const at::Tensor output_nh = at::linear(at::silu(halves[0]) * halves[1], downs[e]);
    const at::Tensor weight_n1 = in.weights_tk.index({token_n, choice_n}).unsqueeze(1);
    y_th = y_th.index_add(0, token_n, output_nh.to(wide) * weight_n1.to(wide));
  }
  return y_th.to(in.x_th.scalar_type());
}

ExpertPair experts_forward_reference(const ExpertInputs& in) {
  const SortedChoices sorted = sort_choices(in);
  const at::ScalarType wide = wide_type(in.x_th);
  const int64_t num_choices = sorted.choice_r.numel(), two_inner = in.gate_up_eih.size(1), hidden = in.x_th.size(1);
  const int64_t most_rows = most_expert_rows(num_choices, in.gate_up_eih.size(0));
  at::Tensor kept = at::zeros({most_rows, two_inner}, in.x_th.options());
  at::Tensor output_rh = at::empty({num_choices, hidden}, in.x_th.options());
  int64_t begin = 0;
  for (size_t e = 0; e < sorted.counts.size(); begin += sorted.counts[e++]) {
    const int64_t count = sorted.counts[e], expert = static_cast<int64_t>(e);
    const at::Tensor gate_up = at::linear(in.x_th.index_select(0, sorted.token_r.narrow(0, begin, count)), in.gate_up_eih[expert]);
    kept.narrow(0, begin, count).copy_(gate_up);
    const std::vector<at::Tensor> halves = gate_up.chunk(2, -1);
    output_rh.narrow(0, begin, count).copy_(at::linear(at::silu(halves[0]) * halves[1], in.down_ehi[expert]));
  }
  // Back in the order of choices, so that each token's sum has the order of its choices.
  const at::Tensor by_choice = at::empty_like(output_rh).index_copy_(0, sorted.choice_r, output_rh);
  const at::Tensor weighted = by_choice.to(wide) * in.weights_tk.to(wide).reshape({-1, 1});
  return {weighted.view({in.x_th.size(0), in.experts_tk.size(1), hidden}).sum(1).to(in.x_th.scalar_type()), kept};
}

// With p = act = silu(gate)·up and w the weight: dp = w·(dy down), dweight = Σ (dy down)·p, ddown = dyᵀ (w·p), dgate_up = dgate_upᵀ x.
ExpertPair experts_backward_reference(const at::Tensor& dy_th, const ExpertInputs& in, const at::Tensor& kept, const ExpertGradients& to) {
  const SortedChoices sorted = sort_choices(in);
  const at::ScalarType wide = wide_type(in.x_th), narrow = in.x_th.scalar_type();
  const int64_t num_choices = sorted.choice_r.numel();
  const at::Tensor weight_r = in.weights_tk.reshape({-1}).index_select(0, sorted.choice_r).to(wide);
  at::Tensor dx_rh = at::empty({num_choices, in.x_th.size(1)}, in.x_th.options()), dweight_r = at::empty_like(weight_r);
  int64_t begin = 0;
  for (size_t e = 0; e < sorted.counts.size(); begin += sorted.counts[e++]) {
    const int64_t count = sorted.counts[e], expert = static_cast<int64_t>(e);
    const at::Tensor token_n = sorted.token_r.narrow(0, begin, count), weight_n1 = weight_r.narrow(0, begin, count).unsqueeze(1);
    const at::Tensor x_nh = in.x_th.index_select(0, token_n), dy_nh = dy_th.index_select(0, token_n).to(narrow);
    const std::vector<at::Tensor> halves = kept.narrow(0, begin, count).to(wide).chunk(2, -1);
    const at::Tensor act = at::silu(halves[0]) * halves[1], dact = at::mm(dy_nh, in.down_ehi[expert]).to(wide);
    dweight_r.narrow(0, begin, count).copy_((dact * act).sum(-1));
    const at::Tensor weighted = dact * weight_n1;
    const at::Tensor dgate_up =
        at::cat({at::silu_backward(weighted * halves[1], halves[0]), weighted * at::silu(halves[0])}, -1).to(narrow);
    dx_rh.narrow(0, begin, count).copy_(at::mm(dgate_up, in.gate_up_eih[expert]));
    put(to.gate_up_eih[expert], at::mm(dgate_up.t(), x_nh), to.add_to_gate_up);
    put(to.down_ehi[expert], at::mm(dy_nh.t(), (act * weight_n1).to(narrow)), to.add_to_down);
  }
  const at::Tensor by_choice = at::empty_like(dx_rh).index_copy_(0, sorted.choice_r, dx_rh);
  const at::Tensor dx = by_choice.to(wide).view({in.x_th.size(0), in.experts_tk.size(1), in.x_th.size(1)}).sum(1).to(narrow);
  const at::Tensor dweights = at::empty_like(dweight_r).index_copy_(0, sorted.choice_r, dweight_r);
  return {dx, dweights.view(in.weights_tk.sizes()).to(in.weights_tk.scalar_type())};
}

}  // namespace trine
