// The head's product and the cross-entropy after it, in chunks of tokens, so that the [tokens, vocabulary] logits never exist whole.
#pragma once

#include <ATen/core/Tensor.h>

#include "base/ignore_index.h"
#include "ops/gradient_sink.h"

namespace trine {

// The logits of a chunk take 64 MiB in bf16.
inline constexpr int64_t kMostLogits = int64_t{1} << 25;

// Σ over tokens with a label of −log softmax(x W ᵀ)[label], times `scale`; an fp32 scalar. x: [T, H], weight: [V, H] of x's dtype,
// labels: int64 [T]. Logits are formed in x's dtype, the softmax and the sum in fp32. With no valid label the result is exactly 0 and
// so are the gradients (case E3).
// While gradients are recorded, the gradients of x and weight are computed here and now, chunk by chunk, already scaled; the weight's
// goes to `sink` (required then).
// `most_logits`: how many logits a chunk has at most; a chunk is at least one token. It decides about memory and speed only.
at::Tensor linear_cross_entropy(const at::Tensor& x_th, const at::Tensor& weight_vh, const at::Tensor& labels_t, double scale,
                                GradientSink* sink, int64_t most_logits = kMostLogits);

}  // namespace trine
