// Attention as a registered op: shapes, autograd, the CPU kernel, and plain tensor operations for everything else.
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <atomic>
#include <cmath>

#include "ops/attention.h"
#include "ops/attention_cpu.h"
#include "ops/tensor_values.h"

namespace trine {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using MaybeTensor = std::optional<at::Tensor>;
using Forward = std::tuple<at::Tensor, at::Tensor>;
using Backward = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

bool given(const MaybeTensor& x) { return x.has_value() && x->defined(); }

void check(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const MaybeTensor& first_visible) {
  TORCH_CHECK(q.dim() == 4 && k.dim() == 4 && v.dim() == 4, "attention: q [B, H, S, D] and k, v [B, KV, S, D] expected, found ",
              q.sym_sizes(), ", ", k.sym_sizes(), " and ", v.sym_sizes());
  TORCH_CHECK(k.sym_sizes() == v.sym_sizes() && k.sym_size(0) == q.sym_size(0) && k.sym_size(2) == q.sym_size(2) &&
                  k.sym_size(3) == q.sym_size(3),
              "attention: k and v of q's batch, length and head_dim expected, found q ", q.sym_sizes(), ", k ", k.sym_sizes(), ", v ",
              v.sym_sizes());
  TORCH_CHECK(k.sym_size(1) > 0 && q.sym_size(1) % k.sym_size(1) == 0, "attention: a number of query heads divisible by that of the ",
              "key-value heads expected, found ", q.sym_size(1), " and ", k.sym_size(1));
  TORCH_CHECK(q.sym_size(3) > 0, "attention: a positive head_dim expected, found q ", q.sym_sizes());
  TORCH_CHECK(q.is_floating_point() && k.scalar_type() == q.scalar_type() && v.scalar_type() == q.scalar_type(),
              "attention: q, k and v of one floating-point dtype expected, found ", q.scalar_type(), ", ", k.scalar_type(), " and ",
              v.scalar_type());
  TORCH_CHECK(k.device() == q.device() && v.device() == q.device(), "attention: q, k and v on one device expected, found ", q.device(),
              ", ", k.device(), " and ", v.device());
  if (!given(first_visible)) return;
  const at::Tensor& first = *first_visible;
  TORCH_CHECK(first.dim() == 2 && first.sym_size(0) == q.sym_size(0) && first.sym_size(1) == q.sym_size(2) &&
                  first.scalar_type() == at::kLong && first.device() == q.device(),
              "attention: first_visible of int64 [", q.sym_size(0), ", ", q.sym_size(2), "] on ", q.device(), " expected, found ",
              first.scalar_type(), " ", first.sym_sizes(), " on ", first.device());
}

// [B, H, S, D] over memory in the order [B, S, H, D], in which the next layer reads it.
at::Tensor empty_out(const at::Tensor& q) {
  return at::empty_symint({q.sym_size(0), q.sym_size(2), q.sym_size(1), q.sym_size(3)}, q.options()).transpose(1, 2);
}
at::Tensor empty_lse(const at::Tensor& q) {
  return at::empty_symint({q.sym_size(0), q.sym_size(1), q.sym_size(2)}, q.options().dtype(wide_type(q)));
}

void check_backward(const at::Tensor& dout, const at::Tensor& q, const at::Tensor& out, const at::Tensor& lse) {
  TORCH_CHECK(dout.sym_sizes() == q.sym_sizes() && out.sym_sizes() == q.sym_sizes() && dout.scalar_type() == q.scalar_type() &&
                  out.scalar_type() == q.scalar_type(),
              "attention_backward: dout and out like q expected, ", q.scalar_type(), " ", q.sym_sizes(), ", found ",
              dout.scalar_type(), " ", dout.sym_sizes(), " and ", out.scalar_type(), " ", out.sym_sizes());
  TORCH_CHECK(lse.dim() == 3 && lse.sym_sizes() == q.sym_sizes().slice(0, 3) && lse.scalar_type() == wide_type(q),
              "attention_backward: lse of ", wide_type(q), " ", q.sym_sizes().slice(0, 3), " expected, found ", lse.scalar_type(), " ",
              lse.sym_sizes());
}

// --- Plain tensor operations, in fp32 (float64 for float64)

at::Tensor widened_heads(const at::Tensor& x_bksd, int64_t num_heads) {
  return x_bksd.to(wide_type(x_bksd)).repeat_interleave(num_heads / x_bksd.size(1), 1);  // 0,0,1,1 and not 0,1,0,1 (case G4)
}

struct Scores {
  at::Tensor scaled_bhss, hidden_bhss;
};
Scores scores_of(const at::Tensor& q, const at::Tensor& k, const MaybeTensor& first_visible) {
  const at::Tensor positions_s = at::arange(q.size(2), q.options().dtype(at::kLong));
  at::Tensor hidden = positions_s.unsqueeze(0) > positions_s.unsqueeze(1);
  if (given(first_visible)) hidden = hidden.logical_or(positions_s < first_visible->unsqueeze(2)).unsqueeze(1);
  const at::Tensor products = at::matmul(q.to(wide_type(q)), widened_heads(k, q.size(1)).transpose(2, 3));
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(3)));
  return {(products * scale).masked_fill_(hidden, -std::numeric_limits<double>::infinity()), hidden};
}
at::Tensor probabilities_of(const Scores& scores, const at::Tensor& lse) {
  return (scores.scaled_bhss - lse.unsqueeze(3)).exp_().masked_fill_(scores.hidden_bhss, 0);  // a row that sees nothing has lse −∞
}

Forward forward_reference(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const MaybeTensor& first_visible) {
  check(q, k, v, first_visible);
  const Scores scores = scores_of(q, k, first_visible);
  const at::Tensor lse = scores.scaled_bhss.logsumexp(3);
  at::Tensor out = empty_out(q);
  out.copy_(at::matmul(probabilities_of(scores, lse), widened_heads(v, q.size(1))));
  return {out, lse};
}

Backward backward_reference(const at::Tensor& dout, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& out,
                            const at::Tensor& lse, const MaybeTensor& first_visible) {
  check(q, k, v, first_visible);
  check_backward(dout, q, out, lse);
  const at::ScalarType wide = wide_type(q);
  const at::Tensor probabilities = probabilities_of(scores_of(q, k, first_visible), lse);
  const at::Tensor d = dout.to(wide), delta = (d * out).sum(3, /*keepdim=*/true);
  const at::Tensor dscores = (at::matmul(d, widened_heads(v, q.size(1)).transpose(2, 3)) - delta)
                                 .mul_(probabilities)
                                 .mul_(1 / std::sqrt(static_cast<double>(q.size(3))));
  const auto like = [](const at::Tensor& x, const at::Tensor& value) { return at::empty_like(x).copy_(value); };
  const auto group_sum = [&](const at::Tensor& x_bhsd) {
    return x_bhsd.unflatten(1, {k.size(1), q.size(1) / k.size(1)}).sum(2);
  };
  return {like(q, at::matmul(dscores, widened_heads(k, q.size(1)))), like(k, group_sum(at::matmul(dscores.transpose(2, 3), q.to(wide)))),
          like(v, group_sum(at::matmul(probabilities.transpose(2, 3), d)))};
}

// --- The CPU kernel

at::Tensor bytes(int64_t count) { return at::empty({count}, at::TensorOptions(at::kByte)); }

// Tasks differ in cost, so threads take the next one from a counter.
void run_tasks(int64_t num_tasks, int64_t scratch_bytes, const std::function<void(int64_t, void*)>& work) {
  const int64_t num_workers = std::min<int64_t>(num_tasks, at::get_num_threads());
  const at::Tensor scratch = bytes(num_workers * scratch_bytes);
  std::atomic<int64_t> next = 0;
  at::parallel_for(0, num_workers, 1, [&](int64_t begin, int64_t) {
    void* own = static_cast<std::byte*>(scratch.data_ptr()) + begin * scratch_bytes;
    for (int64_t task = next++; task < num_tasks; task = next++) work(task, own);
  });
}

at::Tensor with_contiguous_heads(const at::Tensor& x_bhsd) { return x_bhsd.stride(3) == 1 ? x_bhsd : x_bhsd.contiguous(); }

template <class Value>
HeadsView<const Value> read(const at::Tensor& x) {
  return {values_of<Value>(x), x.stride(0), x.stride(1), x.stride(2)};
}
template <class Value>
HeadsView<Value> write(const at::Tensor& x) {
  return {writable_values_of<Value>(x), x.stride(0), x.stride(1), x.stride(2)};
}

// q, k, v and first_visible as the kernel reads them; keeps the copies that strides made necessary.
struct Arguments {
  at::Tensor q, k, v, first_visible;
  Arguments(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const MaybeTensor& first)
      : q(with_contiguous_heads(q)), k(with_contiguous_heads(k)), v(with_contiguous_heads(v)) {
    if (given(first)) first_visible = first->contiguous();
  }
  template <class Value>
  AttentionInputs<Value> inputs() const {
    return {.shape = {.batch = q.size(0), .heads = q.size(1), .kv_heads = k.size(1), .length = q.size(2), .head_dim = q.size(3)},
            .q = read<Value>(q),
            .k = read<Value>(k),
            .v = read<Value>(v),
            .first_visible = first_visible.defined() ? first_visible.const_data_ptr<int64_t>() : nullptr};
  }
};

template <class Value>
void run_forward(const Arguments& arguments, at::Tensor& out, at::Tensor& lse) {
  const AttentionInputs<Value> in = arguments.inputs<Value>();
  const at::Tensor workspace = bytes(attention_workspace_bytes<Value>(in.shape, instruction_set()));
  attention_forward_cpu<Value>(in, write<Value>(out), lse.data_ptr<float>(), workspace.data_ptr(), run_tasks, instruction_set());
}

Forward forward_cpu(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const MaybeTensor& first_visible) {
  if (!has_kernel_type(q)) return forward_reference(q, k, v, first_visible);
  check(q, k, v, first_visible);
  at::Tensor out = empty_out(q), lse = empty_lse(q);
  if (out.numel() == 0) return {out, lse};
  const Arguments arguments(q, k, v, first_visible);
  q.scalar_type() == at::kFloat ? run_forward<float>(arguments, out, lse) : run_forward<BFloat16Bits>(arguments, out, lse);
  return {out, lse};
}

template <class Value>
void run_backward(const Arguments& arguments, const at::Tensor& dout, const at::Tensor& out, const at::Tensor& lse, at::Tensor& dq,
                  at::Tensor& dk, at::Tensor& dv) {
  const AttentionGradients<Value> gradients{.dout = read<Value>(dout),
                                            .out = read<Value>(out),
                                            .lse = lse.const_data_ptr<float>(),
                                            .dq = write<Value>(dq),
                                            .dk = write<Value>(dk),
                                            .dv = write<Value>(dv)};
  attention_backward_cpu<Value>(arguments.inputs<Value>(), gradients, run_tasks, instruction_set());
}

Backward backward_cpu(const at::Tensor& dout, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& out,
                      const at::Tensor& lse, const MaybeTensor& first_visible) {
  if (!has_kernel_type(q)) return backward_reference(dout, q, k, v, out, lse, first_visible);
  check(q, k, v, first_visible);
  check_backward(dout, q, out, lse);
  at::Tensor dq = at::empty_like(q), dk = at::empty_like(k), dv = at::empty_like(v);  // strides like the inputs'
  if (q.numel() == 0) return {dq, dk.zero_(), dv.zero_()};  // without query heads the keys' gradients are sums of nothing
  const Arguments arguments(q, k, v, first_visible);
  const at::Tensor d = with_contiguous_heads(dout), o = with_contiguous_heads(out), l = lse.contiguous();
  std::array<at::Tensor, 3> results = {dq, dk, dv}, written;
  for (size_t i = 0; i < 3; ++i) written[i] = results[i].stride(3) == 1 ? results[i] : at::empty(results[i].sizes(), q.options());
  q.scalar_type() == at::kFloat ? run_backward<float>(arguments, d, o, l, written[0], written[1], written[2])
                                : run_backward<BFloat16Bits>(arguments, d, o, l, written[0], written[1], written[2]);
  for (size_t i = 0; i < 3; ++i) {
    if (!written[i].is_same(results[i])) results[i].copy_(written[i]);
  }
  return {dq, dk, dv};
}

// --- Shapes alone

Forward forward_meta(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const MaybeTensor& first_visible) {
  check(q, k, v, first_visible);
  return {empty_out(q), empty_lse(q)};
}
Backward backward_meta(const at::Tensor& dout, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& out,
                       const at::Tensor& lse, const MaybeTensor& first_visible) {
  check(q, k, v, first_visible);
  check_backward(dout, q, out, lse);
  return {at::empty_like(q), at::empty_like(k), at::empty_like(v)};
}

// --- Autograd

Forward call_forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const MaybeTensor& first_visible) {
  static const auto op =
      find_op<Forward(const at::Tensor&, const at::Tensor&, const at::Tensor&, const MaybeTensor&)>("trine::attention_forward");
  return op.call(q, k, v, first_visible);
}
Backward call_backward(const at::Tensor& dout, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& out,
                       const at::Tensor& lse, const MaybeTensor& first_visible) {
  static const auto op = find_op<Backward(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                          const at::Tensor&, const MaybeTensor&)>("trine::attention_backward");
  return op.call(dout, q, k, v, out, lse, first_visible);
}

struct Attention : torch::autograd::Function<Attention> {
  static variable_list forward(AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const MaybeTensor& first_visible) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const auto [out, lse] = call_forward(q, k, v, first_visible);
    ctx->save_for_backward({q, k, v, out, lse, first_visible.value_or(at::Tensor())});
    ctx->mark_non_differentiable({lse});
    return {out, lse};
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const MaybeTensor first_visible = saved[5].defined() ? MaybeTensor(saved[5]) : std::nullopt;
    const auto [dq, dk, dv] = call_backward(grads[0], saved[0], saved[1], saved[2], saved[3], saved[4], first_visible);
    return {dq, dk, dv, at::Tensor()};
  }
};

Forward forward_autograd(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const MaybeTensor& first_visible) {
  const variable_list results = Attention::apply(q, k, v, first_visible);
  return {results[0], results[1]};
}

at::Tensor attention_op(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const MaybeTensor& first_visible) {
  return std::get<0>(call_forward(q, k, v, first_visible));
}

}  // namespace

at::Tensor fused_attention(const at::Tensor& q_bhsd, const at::Tensor& k_bksd, const at::Tensor& v_bksd,
                           const at::Tensor& first_visible_bs) {
  return attention_op(q_bhsd, k_bksd, v_bksd, first_visible_bs.defined() ? MaybeTensor(first_visible_bs) : std::nullopt);
}

TORCH_LIBRARY_FRAGMENT(trine, m) {
  m.def("attention(Tensor q, Tensor k, Tensor v, Tensor? first_visible=None) -> Tensor");
  m.def("attention_forward(Tensor q, Tensor k, Tensor v, Tensor? first_visible=None) -> (Tensor out, Tensor lse)");
  m.def("attention_backward(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, Tensor? first_visible=None) "
        "-> (Tensor dq, Tensor dk, Tensor dv)");
}
TORCH_LIBRARY_IMPL(trine, CompositeImplicitAutograd, m) { m.impl("attention", attention_op); }
TORCH_LIBRARY_IMPL(trine, Autograd, m) {
  m.impl("attention_forward", forward_autograd);
  m.impl("attention_backward", torch::autograd::autogradNotImplementedFallback());
}
TORCH_LIBRARY_IMPL(trine, CompositeExplicitAutograd, m) {
  m.impl("attention_forward", forward_reference);
  m.impl("attention_backward", backward_reference);
}
TORCH_LIBRARY_IMPL(trine, CPU, m) {
  m.impl("attention_forward", forward_cpu);
  m.impl("attention_backward", backward_cpu);
}
TORCH_LIBRARY_IMPL(trine, Meta, m) {
  m.impl("attention_forward", forward_meta);
  m.impl("attention_backward", backward_meta);
}

}  // namespace trine
