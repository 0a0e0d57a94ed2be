#include "ops/router.h"

#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <tuple>

#include "ops/router_cpu.h"
#include "ops/tensor_values.h"

namespace trine {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Triple = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using OptionalTensor = std::optional<at::Tensor>;

void check(const at::Tensor& logits, int64_t top_k, const OptionalTensor& bias) {
  TORCH_CHECK(logits.dim() == 2 && logits.is_floating_point(), "router: floating-point logits [tokens, experts] expected, found ",
              logits.scalar_type(), " ", logits.sym_sizes());
  TORCH_CHECK(top_k >= 1 && logits.sym_size(1) >= top_k, "router: top_k from 1 to the number of experts (", logits.sym_size(1),
              ") expected, found ", top_k);
  TORCH_CHECK(!bias || (bias->dim() == 1 && bias->sym_size(0) == logits.sym_size(1)), "router: bias of shape [", logits.sym_size(1),
              "] expected, one value for each expert, found ", bias ? bias->sym_sizes() : c10::SymIntArrayRef());
}

at::Tensor round_robin(const at::Tensor& logits, int64_t top_k) {
  const at::Tensor choices = at::arange(logits.size(0) * top_k, logits.options().dtype(at::kLong));
  return choices.remainder(logits.size(1)).view({-1, top_k});
}

// In plain tensor operations that autograd follows.
Routing plain_router(const at::Tensor& logits, const RouterOptions& options) {
  check(logits, options.top_k, options.bias);
  const at::Tensor probs = at::softmax(logits, -1, wide_type(logits));
  at::Tensor experts;
  if (options.force_balance) {
    experts = round_robin(logits, options.top_k);
  } else {
    const at::Tensor scores = options.bias ? probs.detach() + *options.bias : probs.detach();
    // Sorted, since topk leaves the order of equal scores open.
    experts = std::get<1>(scores.sort(/*stable=*/true, -1, /*descending=*/true)).narrow(1, 0, options.top_k).contiguous();
  }
  at::Tensor weights = probs.gather(1, experts);
  if (options.norm_topk_prob) weights = weights / (weights.sum(-1, /*keepdim=*/true) + kLeastWeightSum);
  return {weights, experts, probs};
}

Triple forward_reference(const at::Tensor& logits, int64_t top_k, bool norm_topk_prob, const OptionalTensor& bias, bool force_balance) {
  const Routing routing = plain_router(logits, {top_k, norm_topk_prob, bias, force_balance});
  return {routing.weights_tk, routing.experts_tk, routing.probs_te};
}

at::Tensor backward_reference(const at::Tensor& dweights, const at::Tensor& dprobs, const at::Tensor& probs, const at::Tensor& experts,
                              bool norm_topk_prob) {
  at::Tensor dchosen = dweights;
  if (norm_topk_prob) {
    const at::Tensor chosen = probs.gather(1, experts), sum = chosen.sum(-1, /*keepdim=*/true) + kLeastWeightSum;
    dchosen = (dweights - (dweights * (chosen / sum)).sum(-1, /*keepdim=*/true)) / sum;
  }
  const at::Tensor dp = dprobs.scatter_add(1, experts, dchosen);
  return probs * (dp - (dp * probs).sum(-1, /*keepdim=*/true));
}

Triple forward_cpu(const at::Tensor& logits, int64_t top_k, bool norm_topk_prob, const OptionalTensor& bias, bool force_balance) {
  if (!has_kernel_type(logits)) return forward_reference(logits, top_k, norm_topk_prob, bias, force_balance);
  check(logits, top_k, bias);
  const int64_t num_tokens = logits.size(0), num_experts = logits.size(1);
  const at::Tensor logits_te = logits.contiguous(), bias_e = bias ? bias->to(at::kFloat).contiguous() : at::Tensor();
  at::Tensor weights = at::empty({num_tokens, top_k}, logits.options().dtype(at::kFloat));
  at::Tensor experts = at::empty({num_tokens, top_k}, logits.options().dtype(at::kLong));
  at::Tensor probs = at::empty({num_tokens, num_experts}, logits.options().dtype(at::kFloat));
  with_value_type(logits, [&](auto value) {
    using Value = decltype(value);
    parallel_items(num_tokens, num_experts * (top_k + 1), [&](int64_t begin, int64_t end) {
      router_rows_cpu({begin, end, num_experts, top_k, norm_topk_prob}, values_of<Value>(logits_te),
                      bias ? values_of<float>(bias_e) : nullptr, force_balance, writable_values_of<float>(weights),
                      writable_values_of<int64_t>(experts), writable_values_of<float>(probs), instruction_set());
    });
  });
  return {weights, experts, probs};
}

at::Tensor backward_cpu(const at::Tensor& dweights, const at::Tensor& dprobs, const at::Tensor& probs, const at::Tensor& experts,
                        bool norm_topk_prob) {
  if (probs.scalar_type() != at::kFloat) return backward_reference(dweights, dprobs, probs, experts, norm_topk_prob);
  const at::Tensor dweights_tk = dweights.to(at::kFloat).contiguous(), dprobs_te = dprobs.to(at::kFloat).contiguous();
  const at::Tensor probs_te = probs.contiguous(), experts_tk = experts.contiguous();
  at::Tensor dlogits = at::empty(probs.sizes(), probs.options());
  parallel_items(probs.size(0), probs.size(1), [&](int64_t begin, int64_t end) {
    router_backward_rows_cpu({begin, end, probs.size(1), experts.size(1), norm_topk_prob}, values_of<float>(dweights_tk),
                             values_of<float>(dprobs_te), values_of<float>(probs_te), values_of<int64_t>(experts_tk),
                             writable_values_of<float>(dlogits), instruction_set());
  });
  return dlogits;
}

Triple forward_meta(const at::Tensor& logits, int64_t top_k, bool, const OptionalTensor& bias, bool) {
  check(logits, top_k, bias);
  const c10::SymInt num_tokens = logits.sym_size(0);
  const auto wide = logits.options().dtype(wide_type(logits));
  return {at::empty_symint({num_tokens, top_k}, wide), at::empty_symint({num_tokens, top_k}, wide.dtype(at::kLong)),
          at::empty_symint({num_tokens, logits.sym_size(1)}, wide)};
}
at::Tensor backward_meta(const at::Tensor&, const at::Tensor&, const at::Tensor& probs, const at::Tensor&, bool) {
  return at::empty_symint(probs.sym_sizes(), probs.options());
}

Triple call_forward(const at::Tensor& logits, int64_t top_k, bool norm_topk_prob, const OptionalTensor& bias, bool force_balance) {
  static const auto op = find_op<Triple(const at::Tensor&, int64_t, bool, const OptionalTensor&, bool)>("trine::router");
  return op.call(logits, top_k, norm_topk_prob, bias, force_balance);
}
at::Tensor call_backward(const at::Tensor& dweights, const at::Tensor& dprobs, const at::Tensor& probs, const at::Tensor& experts,
                         bool norm_topk_prob) {
  using Signature = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, bool);
  static const auto op = find_op<Signature>("trine::router_backward");
  return op.call(dweights, dprobs, probs, experts, norm_topk_prob);
}

struct Router : torch::autograd::Function<Router> {
  static variable_list forward(AutogradContext* ctx, const at::Tensor& logits, int64_t top_k, bool norm_topk_prob,
                               const OptionalTensor& bias, bool force_balance) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const auto [weights, experts, probs] = call_forward(logits, top_k, norm_topk_prob, bias, force_balance);
    ctx->mark_non_differentiable({experts});
    ctx->save_for_backward({probs, experts});
    ctx->saved_data["norm_topk_prob"] = norm_topk_prob;
    ctx->saved_data["dtype"] = static_cast<int64_t>(logits.scalar_type());
    return {weights, experts, probs};
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor dlogits = call_backward(grads[0], grads[2], saved[0], saved[1], ctx->saved_data["norm_topk_prob"].toBool());
    const auto dtype = static_cast<at::ScalarType>(ctx->saved_data["dtype"].toInt());
    return {dlogits.to(dtype), at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

Routing router(const at::Tensor& logits_te, const RouterOptions& options, Implementation implementation) {
  if (implementation == Implementation::kReference) return plain_router(logits_te, options);
  const variable_list out = Router::apply(logits_te, options.top_k, options.norm_topk_prob, options.bias, options.force_balance);
  return {out[0], out[1], out[2]};
}

at::Tensor count_expert_loads(const at::Tensor& experts_tk, int64_t num_experts, const std::optional<at::Tensor>& mask_t) {
  const at::Tensor counted = mask_t ? experts_tk.index({*mask_t}) : experts_tk;
  return at::bincount(counted.reshape({-1}), {}, num_experts);
}

TORCH_LIBRARY_FRAGMENT(trine, m) {
  m.def(
      "router(Tensor logits, int top_k, bool norm_topk_prob, Tensor? bias=None, bool force_balance=False)"
      " -> (Tensor weights, Tensor experts, Tensor probs)");
  m.def("router_backward(Tensor dweights, Tensor dprobs, Tensor probs, Tensor experts, bool norm_topk_prob) -> Tensor dlogits");
}
TORCH_LIBRARY_IMPL(trine, Autograd, m) {
  m.impl("router", [](const at::Tensor& logits, int64_t top_k, bool norm_topk_prob, const OptionalTensor& bias, bool force_balance) {
    const Routing routing = router(logits, {top_k, norm_topk_prob, bias, force_balance}, Implementation::kFused);
    return Triple(routing.weights_tk, routing.experts_tk, routing.probs_te);
  });
  m.impl("router_backward", torch::autograd::autogradNotImplementedFallback());
}
TORCH_LIBRARY_IMPL(trine, CompositeExplicitAutograd, m) {
  m.impl("router", forward_reference);
  m.impl("router_backward", backward_reference);
}
TORCH_LIBRARY_IMPL(trine, CPU, m) {
  m.impl("router", forward_cpu);
  m.impl("router_backward", backward_cpu);
}
TORCH_LIBRARY_IMPL(trine, Meta, m) {
  m.impl("router", forward_meta);
  m.impl("router_backward", backward_meta);
}

}  // namespace trine
