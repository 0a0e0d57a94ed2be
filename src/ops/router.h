// Which experts a token goes to, and with what weights: softmax over all experts in fp32, then the k largest (Shazeer et al. 2017,
// with softmax before selection as in Qwen3's published code).
//
// Registered, shape letters T tokens, E experts, k choices:
//   trine::router(Tensor logits, int top_k, bool norm_topk_prob, Tensor? bias=None, bool force_balance=False)
//     -> (Tensor weights, Tensor experts, Tensor probs), with autograd
//   trine::router_backward(Tensor dweights, Tensor dprobs, Tensor probs, Tensor experts, bool norm_topk_prob) -> Tensor dlogits
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "ops/implementation.h"

namespace trine {

struct Routing {
  at::Tensor weights_tk;  // fp32 (float64 for float64 logits)
  at::Tensor experts_tk;  // int64, in descending order of probability; of equal ones the lower index first
  at::Tensor probs_te;    // softmax of the logits, of weights_tk's dtype
};

struct RouterOptions {
  int64_t top_k = 1;
  bool norm_topk_prob = false;      // weights divided by their sum; otherwise they are the chosen probabilities
  std::optional<at::Tensor> bias{};  // fp32 [E], added for the selection only (Wang et al. 2024, auxiliary-loss-free balancing)
  bool force_balance = false;       // round robin instead of a choice: token t takes t·k .. t·k + k − 1 modulo E. For speed tests.
};

// logits_te: [T, E], any floating dtype. Gradients flow through weights and probs to the logits. With k = 1 and norm_topk_prob every
// weight is 1, so nothing flows through the weights (case F2). Throws c10::Error unless 1 <= top_k <= E and bias is [E].
Routing router(const at::Tensor& logits_te, const RouterOptions& options, Implementation implementation = Implementation::kReference);

// How many choices each expert got: int64 [num_experts]. Tokens whose mask (bool [T]) is false are left out.
at::Tensor count_expert_loads(const at::Tensor& experts_tk, int64_t num_experts, const std::optional<at::Tensor>& mask_t = std::nullopt);

}  // namespace trine
