// The gradients of a mixture's two balancing losses, attached to its routing weights.
//
// The auxiliary loss of a layer is Σ_e c_e · Σ_t p_te, where c_e holds the fraction of choices that expert e got: a constant, but one
// that is known only when all tokens have passed. The z-loss is z_scale · Σ_t logsumexp(logits_t)² (Zoph et al. 2022). Neither is formed
// as a value here, so that a segment of the model needs no second output; their gradients are added where the weights' comes by.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace trine {

struct BalanceTerms {
  at::Tensor coefficients_e;  // c_e, fp32 [E]: read when backward runs, so the caller may fill it in between
  double z_scale = 0;
  std::optional<at::Tensor> mask_t{};  // bool [T]: tokens that count; all by default
};

// Returns the values of weights_tk. Backward passes their gradient on, and adds c_e to that of probs_te (softmax of the logits) and
// 2 · z_scale · logsumexp(logits_t) · p_te to that of logits_te, in the rows of tokens that count.
at::Tensor attach_balance_gradient(const at::Tensor& weights_tk, const at::Tensor& probs_te, const at::Tensor& logits_te,
                                   const BalanceTerms& terms);

}  // namespace trine
