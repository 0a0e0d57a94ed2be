// Moments of weights, and what they tell about whether a tensor was ever trained.
#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/weight_source.h"

namespace trine {

struct TensorStats {
  int64_t count = 0, num_not_finite = 0;
  double mean = 0, std = 0;
  double excess_kurtosis = 0;  // 0 of a normal, -1.2 of a uniform distribution
  double least = 0, most = 0;  // of the finite values
};

// Of every floating-point tensor of the source, in its order, by all threads; tensors of other types have count 0.
std::vector<TensorStats> tensor_stats(const WeightSource& source);

// Whether a matrix looks as it was drawn: normal with one of the standard deviations that initialisers use for it, or uniform as a
// fresh torch.nn.Linear. Training gives weights heavier tails and layers different widths. False for vectors and for matrices too
// small to tell.
bool looks_freshly_drawn(const TensorStats& stats, const std::vector<int64_t>& shape, double initializer_range, int64_t num_layers);

}  // namespace trine
