#include "verify/tensor_stats.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "checkpoint/load_weights.h"

namespace trine {
namespace {

constexpr int64_t kChunk = int64_t{1} << 20;

struct Sums {
  int64_t finite = 0, not_finite = 0;
  double s1 = 0, s2 = 0, s3 = 0, s4 = 0;
  double least = std::numeric_limits<double>::infinity(), most = -std::numeric_limits<double>::infinity();

  void add(const float* values, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const double x = values[i], square = x * x;
      if (!std::isfinite(values[i])) {
        ++not_finite;
        continue;
      }
      ++finite;
      s1 += x;
      s2 += square;
      s3 += square * x;
      s4 += square * square;
      least = std::min(least, x);
      most = std::max(most, x);
    }
  }
  void add(const Sums& other) {
    finite += other.finite;
    not_finite += other.not_finite;
    s1 += other.s1;
    s2 += other.s2;
    s3 += other.s3;
    s4 += other.s4;
    least = std::min(least, other.least);
    most = std::max(most, other.most);
  }
};

TensorStats stats_of(const Sums& sums) {
  TensorStats stats;
  stats.count = sums.finite + sums.not_finite;
  stats.num_not_finite = sums.not_finite;
  if (sums.finite == 0) return stats;
  const auto n = static_cast<double>(sums.finite);
  const double mean = sums.s1 / n, m2 = sums.s2 / n - mean * mean;
  const double m4 = sums.s4 / n - 4 * mean * sums.s3 / n + 6 * mean * mean * sums.s2 / n - 3 * mean * mean * mean * mean;
  stats.mean = mean;
  stats.std = std::sqrt(std::max(0.0, m2));
  stats.excess_kurtosis = m2 > 0 ? m4 / (m2 * m2) - 3 : 0;
  stats.least = sums.least;
  stats.most = sums.most;
  return stats;
}

bool is_float(StoredDtype dtype) {
  return dtype == StoredDtype::kF32 || dtype == StoredDtype::kBF16 || dtype == StoredDtype::kF16 || dtype == StoredDtype::kF64;
}

}  // namespace

std::vector<TensorStats> tensor_stats(const WeightSource& source) {
  struct Task {
    size_t tensor;
    int64_t begin, end;
  };
  const std::vector<StoredTensor>& tensors = source.tensors();
  std::vector<Task> tasks;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t count = is_float(tensors[i].dtype) ? element_count(tensors[i].shape) : 0;
    for (int64_t begin = 0; begin < count; begin += kChunk) tasks.push_back({i, begin, std::min(begin + kChunk, count)});
  }
  std::vector<Sums> sums(tasks.size());
  at::parallel_for(0, static_cast<int64_t>(tasks.size()), 1, [&](int64_t first, int64_t last) {
    at::Tensor values = at::empty({kChunk});
    for (int64_t i = first; i < last; ++i) {
      const Task& task = tasks[static_cast<size_t>(i)];
      const int64_t count = task.end - task.begin;
      load_tensor(source, tensors[task.tensor], values.narrow(0, 0, count), task.begin);
      sums[static_cast<size_t>(i)].add(values.data_ptr<float>(), count);
    }
  });
  std::vector<Sums> whole(tensors.size());
  for (size_t i = 0; i < tasks.size(); ++i) whole[tasks[i].tensor].add(sums[i]);  // in order: the result does not depend on threads
  std::vector<TensorStats> stats;
  for (const Sums& one : whole) stats.push_back(stats_of(one));
  return stats;
}

Origin origin_of(const TensorStats& stats, const std::vector<int64_t>& shape, double initializer_range, int64_t num_layers) {
  constexpr int64_t kLeast = 4096;  // values below which chance alone could look like this
  if (shape.size() < 2 || stats.count < kLeast || stats.std == 0) return Origin::kUnknown;
  const auto n = static_cast<double>(stats.count), fan_in = static_cast<double>(shape.back());
  const double depth = std::sqrt(2 * static_cast<double>(std::max<int64_t>(1, num_layers)));
  const auto is_like = [&](double std_error, double kurtosis_error) {
    const auto has_std = [&](double expected) { return std::abs(stats.std / expected - 1) < std_error; };
    if (std::abs(stats.excess_kurtosis + 1.2) < kurtosis_error && has_std(1 / std::sqrt(3 * fan_in))) return true;
    return std::abs(stats.excess_kurtosis) < kurtosis_error &&
           (has_std(initializer_range) || has_std(0.02) || has_std(initializer_range / depth) || has_std(1 / std::sqrt(fan_in)));
  };
  // Sampling errors of mean, std and kurtosis at five sigmas, and a little for rounding to bf16.
  const bool centred = std::abs(stats.mean) < 5 * stats.std / std::sqrt(n);
  if (centred && is_like(5 / std::sqrt(2 * n) + 0.003, 5 * std::sqrt(24 / n) + 0.02)) return Origin::kDrawn;
  return is_like(0.25, 1.0) ? Origin::kNearStart : Origin::kTrained;
}

}  // namespace trine
