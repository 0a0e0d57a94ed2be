// The parameters of one segment in flat buffers: master values, compute values, gradients.
//
// Each parameter begins on a 64-byte boundary of every buffer, in tree order. The master buffer holds what the optimiser updates (fp32
// by default); modules see views of the compute buffer (bf16 by default). Where both have one dtype they are the same memory. gather()
// brings the compute values up to date; the executor calls it before a segment runs, so that sharding can fetch them there.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

#include "model/spec.h"
#include "ops/gradient_sink.h"

namespace trine {

// One parameter of a unit. `weight` is a view of the compute buffer and an autograd leaf; `master` and the gradient are views too.
struct Parameter {
  std::string name;  // full name, as in published files
  std::vector<int64_t> shape;
  InitSpec init;
  int64_t offset = 0, numel = 0;  // in elements of the flat buffers
  at::Tensor weight, master;
  GradientSink sink;

  GradientSink* gradient_sink() { return sink.gradient().defined() ? &sink : nullptr; }
};

struct UnitDtypes {
  at::ScalarType master = at::kFloat, compute = at::kFloat, gradient = at::kFloat;
};

class ParameterUnit {
 public:
  // Allocates master and compute buffers (zeroed). `parameters` is what the unit's segment owns.
  ParameterUnit(std::string name, const std::vector<NamedParameter>& parameters, const UnitDtypes& dtypes);

  const std::string& name() const { return name_; }
  std::vector<std::unique_ptr<Parameter>>& parameters() { return parameters_; }
  const std::vector<std::unique_ptr<Parameter>>& parameters() const { return parameters_; }

  void allocate_gradients();  // once, before training
  void begin_step();          // the next gradient of each parameter stores
  void finish_step();         // ranges that no gradient reached are zero

  // Compute values follow the master's. Cheap when nothing changed since the last call.
  void gather();
  // The master's values were changed (an update, a load).
  void master_changed() { ++master_generation_; }
  // Which version of the values gather() last brought; a backward pass must see the one its forward pass saw.
  int64_t generation() const { return compute_generation_; }

  at::Tensor& master() { return master_; }
  at::Tensor& gradient() { return gradient_; }
  const UnitDtypes& dtypes() const { return dtypes_; }
  int64_t flat_size() const { return flat_size_; }

 private:
  std::string name_;
  UnitDtypes dtypes_;
  std::vector<std::unique_ptr<Parameter>> parameters_;
  int64_t flat_size_ = 0;  // with the padding between parameters
  at::Tensor master_, compute_, gradient_;
  int64_t master_generation_ = 1, compute_generation_ = 0;
};

// A zeroed one-dimensional tensor on pages of its own, advised as huge ones: they are touched once and kept for the whole run.
at::Tensor allocate_flat(int64_t count, at::ScalarType dtype);

}  // namespace trine
