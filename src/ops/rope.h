// Rotary position embedding, rotate-half: dimension i is paired with i + head_dim/2, as published Qwen3 and Llama weights expect.
//
// Angles, cosines and sines are fp32 always; only the rotated result is cast back (case E5).
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <utility>
#include <vector>

namespace trine {

// Cosines and sines of position · inv_freq, grown on demand up to `max_positions`. A value depends on its position only, so growing
// never changes one (case G6).
class RopeTable {
 public:
  RopeTable(std::vector<float> inv_freq, double attention_scaling, int64_t max_positions);

  // cos and sin of positions 0..length-1: [length, head_dim/2] fp32. Throws UserError beyond max_positions, naming both numbers.
  std::pair<at::Tensor, at::Tensor> rows(int64_t length);

 private:
  at::Tensor inv_freq_;
  double attention_scaling_;
  int64_t max_positions_;
  at::Tensor cos_, sin_;
};

// x: [B, H, S, D]; cos and sin: [S, D/2] or [B, S, D/2]. Returns x's dtype. Backward rotates the other way with the same tables, which
// get no gradient.
at::Tensor rope(const at::Tensor& x_bhsd, const at::Tensor& cos, const at::Tensor& sin);

}  // namespace trine
