#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "checkpoint/load_weights.h"
#include "verify/weights.h"

namespace trine {
namespace {

constexpr int64_t kChunk = int64_t{1} << 20;
constexpr const char* kHead = "lm_head.weight";
constexpr const char* kEmbedding = "model.embed_tokens.weight";

TensorDrift drift_of(const WeightSource& a, const StoredTensor& tensor_a, const WeightSource& b, const StoredTensor& tensor_b) {
  TensorDrift drift;
  drift.name = tensor_a.name;
  double difference = 0, norm = 0;
  const int64_t count = element_count(tensor_a.shape);
  at::Tensor values_a = at::empty({std::min(kChunk, count)}), values_b = at::empty_like(values_a);
  for (int64_t begin = 0; begin < count; begin += kChunk) {
    const int64_t length = std::min(kChunk, count - begin);
    load_tensor(a, tensor_a, values_a.narrow(0, 0, length), begin);
    load_tensor(b, tensor_b, values_b.narrow(0, 0, length), begin);
    const float *x = values_a.data_ptr<float>(), *y = values_b.data_ptr<float>();
    for (int64_t i = 0; i < length; ++i) {
      norm += static_cast<double>(x[i]) * x[i];
      if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
      const double apart = static_cast<double>(x[i]) - y[i];
      ++drift.different;
      difference += apart * apart;
      drift.largest = std::isnan(apart) ? apart : std::max(drift.largest, std::abs(apart));
    }
  }
  if (drift.different) drift.relative = std::sqrt(difference / norm);
  if (!std::isfinite(drift.relative)) drift.relative = std::numeric_limits<double>::infinity();
  return drift;
}

// The tensor of `b` to compare with: the one of the same name, or the embedding for a head that only `a` stores.
const StoredTensor* partner(const WeightSource& b, const std::string& name) {
  if (const StoredTensor* same = b.find(name)) return same;
  return name == kHead ? b.find(kEmbedding) : nullptr;
}

}  // namespace

WeightComparison compare_weights(const WeightSource& a, const WeightSource& b) {
  WeightComparison result;
  std::vector<std::pair<const StoredTensor*, const StoredTensor*>> pairs;
  for (const StoredTensor& tensor : a.tensors()) {
    const StoredTensor* other = partner(b, tensor.name);
    if (!other) {
      result.only_in_a.push_back(tensor.name);
    } else if (other->shape != tensor.shape) {
      result.other_shape.push_back(tensor.name);
    } else {
      pairs.emplace_back(&tensor, other);
      if (other->name != tensor.name) {
        result.notes.push_back(fmt::format("{} of {} is compared with the embedding of {}", kHead, a.description(), b.description()));
      }
    }
  }
  for (const StoredTensor& tensor : b.tensors()) {
    if (a.find(tensor.name)) continue;
    const StoredTensor* other = partner(a, tensor.name);
    if (!other || other->shape != tensor.shape) {
      result.only_in_b.push_back(tensor.name);
    } else {
      pairs.emplace_back(other, &tensor);
      result.notes.push_back(fmt::format("{} of {} is compared with the embedding of {}", kHead, b.description(), a.description()));
    }
  }
  result.drifts.resize(pairs.size());
  at::parallel_for(0, static_cast<int64_t>(pairs.size()), 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const auto& [tensor_a, tensor_b] = pairs[static_cast<size_t>(i)];
      TensorDrift& drift = result.drifts[static_cast<size_t>(i)];
      drift = drift_of(a, *tensor_a, b, *tensor_b);
      if (tensor_b->name != tensor_a->name) drift.name = kHead;
    }
  });
  for (const TensorDrift& drift : result.drifts) result.equal += drift.different == 0;
  std::sort(result.drifts.begin(), result.drifts.end(), [](const TensorDrift& x, const TensorDrift& y) {
    return x.relative != y.relative ? x.relative > y.relative : x.name < y.name;
  });
  return result;
}

}  // namespace trine
