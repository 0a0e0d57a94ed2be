// The head's product and the cross-entropy after it, in chunks of tokens, so that the [tokens, vocabulary] logits never exist whole.
//
// The trainer calls linear_cross_entropy, which computes gradients on the way forward. Registered for others, as pure functions
// (cross_entropy_op.cpp): trine::linear_cross_entropy(Tensor x, Tensor weight, Tensor labels, int ignore_index=-100,
//   str reduction="mean") -> Tensor, with autograd: sum, mean (over tokens with a label; 0 without any) or none ([T]), in fp32;
//   trine::linear_cross_entropy_forward(Tensor x, Tensor weight, Tensor labels, int ignore_index) -> (Tensor losses, Tensor lse), [T] fp32;
//   trine::linear_cross_entropy_backward(Tensor grad, Tensor x, Tensor weight, Tensor labels, Tensor lse, int ignore_index)
//   -> (Tensor dx, Tensor dweight), which forms the logits again; grad: [T]; dweight: fp32, the sum over chunks.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>

#include "base/ignore_index.h"
#include "ops/gradient_sink.h"
#include "ops/implementation.h"

namespace trine {

// The logits of a chunk take 64 MiB in bf16.
inline constexpr int64_t kMostLogits = int64_t{1} << 25;

// Σ over tokens with a label of −log softmax(x W ᵀ)[label], times `scale`; an fp32 scalar. x: [T, H], weight: [V, H] of x's dtype,
// labels: int64 [T]. Logits are formed in x's dtype, the softmax and the sum in fp32. With no valid label the result is exactly 0 and
// so are the gradients (case E3).
// While gradients are recorded, the gradients of x and weight are computed here and now, chunk by chunk, already scaled; the weight's
// goes to `sink` (required then). The reference takes torch's softmax, the fused one a kernel that turns logits into gradients in place.
// `most_logits`: how many logits a chunk has at most; a chunk is at least one token. It decides about memory and speed only.
// Throws c10::IndexError for a label outside the vocabulary.
at::Tensor linear_cross_entropy(const at::Tensor& x_th, const at::Tensor& weight_vh, const at::Tensor& labels_t, double scale,
                                GradientSink* sink, Implementation implementation = Implementation::kFused,
                                int64_t most_logits = kMostLogits);

// Calls action(begin, size) for chunks of tokens.
template <class Action>
void for_each_chunk(int64_t num_tokens, int64_t vocab, int64_t most_logits, const Action& action) {
  const int64_t num_chunks = std::max<int64_t>(1, (num_tokens * vocab + most_logits - 1) / most_logits);
  const int64_t chunk = std::max<int64_t>(1, (num_tokens + num_chunks - 1) / num_chunks);
  for (int64_t begin = 0; begin < num_tokens; begin += chunk) action(begin, std::min(chunk, num_tokens - begin));
}

}  // namespace trine
