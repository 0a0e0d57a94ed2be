// Choosing the next token from logits.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace trine {

struct SamplingOptions {
  double temperature = 0;  // 0: the most likely token, always
  int64_t top_k = 0;       // only the k most likely tokens; 0: all
  double top_p = 1;        // only the fewest tokens whose probabilities (after top_k) reach this sum

  void check() const;  // throws UserError for values that make no sense
};

// logits: [V], any floating dtype. `uniform` in [0, 1) decides which token of those that remain; equal logits are ordered by id. The
// filters come in the order temperature, top_k, top_p, as Transformers applies them. Probabilities are computed in double.
int64_t choose_token(const at::Tensor& logits_v, const SamplingOptions& options, double uniform);

}  // namespace trine
