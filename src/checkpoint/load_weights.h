// Filling a model's parameters from a weight source, with every key of both sides accounted for.
#pragma once

#include <torch/torch.h>

#include <map>
#include <string>
#include <vector>

#include "checkpoint/key_accounting.h"
#include "checkpoint/weight_source.h"

namespace trine {

// One parameter, or a flat range of one: elements [first, first + destination.numel()) of the tensor `name` of `shape`.
struct WantedTensor {
  std::string name;
  std::vector<int64_t> shape;
  at::Tensor destination;  // contiguous; any device; float32, bfloat16, float16 or float64
  int64_t first = 0;
};

struct LoadReport {
  int64_t loaded = 0;  // parameters filled
  int64_t total = 0;   // parameters wanted
  std::map<std::string, int64_t> source_dtypes;  // "BF16" -> parameters
  std::vector<std::string> notes;  // what was ignored, and why that is right
};

// Fills every destination, converting types. A tied name may be absent, or present with equal values. `*.rotary_emb.inv_freq` is
// ignored with a note. Throws UserError, before anything is filled, for a missing, unexpected or mis-shaped key, listing counts and
// examples.
LoadReport load_weights(const WeightSource& source, const std::vector<WantedTensor>& wanted, const TiedNames& tied);

// Empty if `name`, which the source holds, has its partner's shape and values; else what is wrong.
std::string tied_fault(const WeightSource& source, const std::string& name, const std::string& partner);

// Elements [first, first + destination.numel()) of one tensor, converted into `destination` (contiguous).
void load_tensor(const WeightSource& source, const StoredTensor& tensor, at::Tensor destination, int64_t first = 0);

at::ScalarType to_scalar_type(StoredDtype dtype);  // throws UserError for types that weights do not have (quantised ones)
StoredDtype to_stored_dtype(at::ScalarType type);

}  // namespace trine
