// The cosines and sines that rope turns by, computed once in fp32 and grown on demand.
#pragma once

#include <ATen/core/Tensor.h>

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

}  // namespace trine
