#include "ops/grouped_experts.h"

#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>
#include <torch/torch.h>

#include "ops/expert_order_cpu.h"
#include "ops/grouped_experts_parts.h"
#include "ops/in_place.h"
#include "ops/tensor_values.h"

namespace trine {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Quadruple = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
using T = const at::Tensor&;

ExpertPair forward_reference(T x, T gate_up, T down, T experts, T weights) {
  return experts_forward_reference({x, gate_up, down, experts, weights});
}
ExpertPair forward_cpu(T x, T gate_up, T down, T experts, T weights) {
  const ExpertInputs in{x, gate_up, down, experts, weights};
  return has_kernel_type(x) ? experts_forward_on_cpu(in) : experts_forward_reference(in);
}
ExpertPair forward_meta(T x, T gate_up, T down, T experts, T weights) {
  check_expert_inputs({x, gate_up, down, experts, weights});
  const c10::SymInt rows = most_expert_rows(experts.sym_numel(), gate_up.sym_size(0));
  return {at::empty_symint(x.sym_sizes(), x.options()), at::empty_symint({rows, gate_up.sym_size(1)}, x.options())};
}

ExpertPair into_reference(T dy, T x, T gate_up, T down, T experts, T weights, T kept, const at::Tensor& gate_up_gradient,
                          bool add_to_gate_up, const at::Tensor& down_gradient, bool add_to_down) {
  return experts_backward_reference(dy, {x, gate_up, down, experts, weights}, kept,
                                    {gate_up_gradient, down_gradient, add_to_gate_up, add_to_down});
}
ExpertPair into_cpu(T dy, T x, T gate_up, T down, T experts, T weights, T kept, const at::Tensor& gate_up_gradient, bool add_to_gate_up,
                    const at::Tensor& down_gradient, bool add_to_down) {
  const ExpertInputs in{x, gate_up, down, experts, weights};
  const ExpertGradients to{gate_up_gradient, down_gradient, add_to_gate_up, add_to_down};
  return has_kernel_type(x) ? experts_backward_on_cpu(dy, in, kept, to) : experts_backward_reference(dy, in, kept, to);
}
ExpertPair into_meta(T, T x, T, T, T, T weights, T, const at::Tensor&, bool, const at::Tensor&, bool) {
  return {at::empty_symint(x.sym_sizes(), x.options()), at::empty_symint(weights.sym_sizes(), weights.options())};
}

ExpertPair call_forward(T x, T gate_up, T down, T experts, T weights) {
  static const auto op = find_op<ExpertPair(T, T, T, T, T)>("trine::grouped_experts_forward");
  return op.call(x, gate_up, down, experts, weights);
}
Quadruple call_backward(T dy, T x, T gate_up, T down, T experts, T weights, T kept) {
  static const auto op = find_op<Quadruple(T, T, T, T, T, T, T)>("trine::grouped_experts_backward");
  return op.call(dy, x, gate_up, down, experts, weights, kept);
}
ExpertPair call_backward_into(T dy, const ExpertInputs& in, T kept, const ExpertGradients& to) {
  using Signature = ExpertPair(T, T, T, T, T, T, T, const at::Tensor&, bool, const at::Tensor&, bool);
  static const auto op = find_op<Signature>("trine::grouped_experts_backward_into");
  return op.call(dy, in.x_th, in.gate_up_eih, in.down_ehi, in.experts_tk, in.weights_tk, kept, to.gate_up_eih, to.add_to_gate_up,
                 to.down_ehi, to.add_to_down);
}

Quadruple backward(T dy, T x, T gate_up, T down, T experts, T weights, T kept) {
  const ExpertGradients to{at::empty(gate_up.sizes(), gate_up.options()), at::empty(down.sizes(), down.options())};
  const auto [dx, dweights] = call_backward_into(dy, {x, gate_up, down, experts, weights}, kept, to);
  return {dx, to.gate_up_eih, to.down_ehi, dweights};
}
Quadruple backward_meta(T, T x, T gate_up, T down, T, T weights, T) {
  const auto like = [](T tensor) { return at::empty_symint(tensor.sym_sizes(), tensor.options()); };
  return {like(x), like(gate_up), like(down), like(weights)};
}

struct GroupedExperts : torch::autograd::Function<GroupedExperts> {
  static at::Tensor forward(AutogradContext* ctx, T x, T gate_up, T down, T experts, T weights, int64_t gate_up_sink, int64_t down_sink) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const auto [y, kept] = call_forward(x, gate_up, down, experts, weights);
    ctx->save_for_backward({x, gate_up, down, experts, weights, kept});
    ctx->saved_data["gate_up_sink"] = gate_up_sink;
    ctx->saved_data["down_sink"] = down_sink;
    return y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const ExpertInputs in{saved[0], saved[1], saved[2], saved[3], saved[4]};
    auto* gate_up_sink = reinterpret_cast<GradientSink*>(ctx->saved_data["gate_up_sink"].toInt());
    auto* down_sink = reinterpret_cast<GradientSink*>(ctx->saved_data["down_sink"].toInt());
    if (!gate_up_sink) {
      const auto [dx, dgate_up, ddown, dweights] =
          call_backward(grads[0], in.x_th, in.gate_up_eih, in.down_ehi, in.experts_tk, in.weights_tk, saved[5]);
      return {dx, dgate_up, ddown, at::Tensor(), dweights, at::Tensor(), at::Tensor()};
    }
    const bool add_to_gate_up = !gate_up_sink->begin_write(), add_to_down = !down_sink->begin_write();
    const auto [dx, dweights] =
        call_backward_into(grads[0], in, saved[5], {gate_up_sink->gradient(), down_sink->gradient(), add_to_gate_up, add_to_down});
    return {dx, at::Tensor(), at::Tensor(), at::Tensor(), dweights, at::Tensor(), at::Tensor()};
  }
};

// A weight whose gradient goes to a sink, for the plain loop.
struct IntoSink : torch::autograd::Function<IntoSink> {
  static at::Tensor forward(AutogradContext* ctx, T weight, int64_t sink) {
    ctx->saved_data["sink"] = sink;
    return weight.alias();
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    reinterpret_cast<GradientSink*>(ctx->saved_data["sink"].toInt())->add(grads[0]);
    return {at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor grouped_experts(const at::Tensor& x_th, const at::Tensor& gate_up_eih, const at::Tensor& down_ehi, const at::Tensor& experts_tk,
                           const at::Tensor& weights_tk, GradientSink* gate_up_sink, GradientSink* down_sink,
                           Implementation implementation) {
  TORCH_CHECK(!gate_up_sink == !down_sink, "grouped_experts: sinks for both stacks or for none expected, found one");
  const auto gate_up_address = reinterpret_cast<int64_t>(gate_up_sink), down_address = reinterpret_cast<int64_t>(down_sink);
  if (implementation == Implementation::kFused) {
    return GroupedExperts::apply(x_th, gate_up_eih, down_ehi, experts_tk, weights_tk, gate_up_address, down_address);
  }
  if (!gate_up_sink || !at::GradMode::is_enabled()) return plain_expert_loop({x_th, gate_up_eih, down_ehi, experts_tk, weights_tk});
  return plain_expert_loop(
      {x_th, IntoSink::apply(gate_up_eih, gate_up_address), IntoSink::apply(down_ehi, down_address), experts_tk, weights_tk});
}

TORCH_LIBRARY_FRAGMENT(trine, m) {
  m.def("grouped_experts(Tensor x_th, Tensor gate_up_eih, Tensor down_ehi, Tensor experts_tk, Tensor weights_tk) -> Tensor");
  m.def(
      "grouped_experts_forward(Tensor x_th, Tensor gate_up_eih, Tensor down_ehi, Tensor experts_tk, Tensor weights_tk)"
      " -> (Tensor y, Tensor kept)");
  m.def(
      "grouped_experts_backward(Tensor dy, Tensor x_th, Tensor gate_up_eih, Tensor down_ehi, Tensor experts_tk, Tensor weights_tk,"
      " Tensor kept) -> (Tensor dx, Tensor dgate_up, Tensor ddown, Tensor dweights)");
  m.def(
      "grouped_experts_backward_into(Tensor dy, Tensor x_th, Tensor gate_up_eih, Tensor down_ehi, Tensor experts_tk, Tensor weights_tk,"
      " Tensor kept, Tensor(a!) gate_up_gradient, bool add_to_gate_up, Tensor(b!) down_gradient, bool add_to_down)"
      " -> (Tensor dx, Tensor dweights)");
}
TORCH_LIBRARY_IMPL(trine, Autograd, m) {
  m.impl("grouped_experts", [](T x, T gate_up, T down, T experts, T weights) {
    return grouped_experts(x, gate_up, down, experts, weights, nullptr, nullptr, Implementation::kFused);
  });
  m.impl("grouped_experts_forward", torch::autograd::autogradNotImplementedFallback());
  m.impl("grouped_experts_backward", torch::autograd::autogradNotImplementedFallback());
  m.impl("grouped_experts_backward_into", without_gradients());
}
TORCH_LIBRARY_IMPL(trine, ADInplaceOrView, m) { m.impl("grouped_experts_backward_into", counted_writes()); }
TORCH_LIBRARY_IMPL(trine, CompositeExplicitAutograd, m) {
  m.impl("grouped_experts",
         [](T x, T gate_up, T down, T experts, T weights) { return std::get<0>(call_forward(x, gate_up, down, experts, weights)); });
  m.impl("grouped_experts_forward", forward_reference);
  m.impl("grouped_experts_backward", backward);
  m.impl("grouped_experts_backward_into", into_reference);
}
TORCH_LIBRARY_IMPL(trine, CPU, m) {
  m.impl("grouped_experts_forward", forward_cpu);
  m.impl("grouped_experts_backward_into", into_cpu);
}
TORCH_LIBRARY_IMPL(trine, Meta, m) {
  m.impl("grouped_experts_forward", forward_meta);
  m.impl("grouped_experts_backward", backward_meta);
  m.impl("grouped_experts_backward_into", into_meta);
}

}  // namespace trine
