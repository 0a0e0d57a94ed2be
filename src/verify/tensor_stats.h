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

// How a matrix looks beside what initialisers draw for it: a normal distribution of one of their standard deviations, or the uniform
// one of a fresh torch.nn.Linear. Training gives weights heavier tails and layers different widths, little by little.
enum class Origin {
  kDrawn,      // the same to within sampling error
  kNearStart,  // width within a quarter, tails a little heavier: a run that has only begun
  kTrained,
  kUnknown     // a vector, or too few values to tell
};
Origin origin_of(const TensorStats& stats, const std::vector<int64_t>& shape, double initializer_range, int64_t num_layers);

}  // namespace trine
