// Whether a folder's weights are whole, are those of its config.json, and look trained; and how two sets of weights differ.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/weight_source.h"

namespace trine {

struct WeightCheck {
  std::string name;  // "keys"
  bool passed = false;
  std::string detail;  // what was found
};

struct WeightReport {
  std::vector<WeightCheck> checks;  // in the order made; a failed "files" is the last one
  int64_t tensors = 0, values = 0;
  std::map<std::string, int64_t> dtypes;  // "BF16" -> tensors
  std::vector<std::string> notes;

  bool passed() const;
};

// `path`: a Hugging Face folder, a Trine checkpoint or a run folder. Checks, each named: files (readable, index, hashes where they are
// known), config, keys, shapes, dtypes, tied head, finite, trained. Faults of the weights fail checks; a path that holds none at all throws
// UserError.
WeightReport check_weights(const std::filesystem::path& path);

struct TensorDrift {
  std::string name;
  double relative = 0;     // |a - b| / |a|, Euclidean norms; infinite if a is zero and b is not, or if either is not finite
  double largest = 0;      // of |a - b|
  int64_t different = 0;   // elements, compared as float32
};

struct WeightComparison {
  std::vector<TensorDrift> drifts;         // of tensors that both have in one shape, the largest relative drift first
  std::vector<std::string> only_in_a, only_in_b, other_shape;
  int64_t equal = 0;                       // tensors without a different element
  std::vector<std::string> notes;

  bool same_tensors() const { return only_in_a.empty() && only_in_b.empty() && other_shape.empty(); }
};

// Compares tensor by tensor, after conversion to float32. A head that one side stores and the other ties is compared with the embedding.
WeightComparison compare_weights(const WeightSource& a, const WeightSource& b);

}  // namespace trine
