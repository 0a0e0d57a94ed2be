// The parameters of one segment in flat buffers: master values, compute values, gradients.
//
// Each weight begins on a 64-byte boundary of every buffer, in tree order. The master buffer holds what the optimiser updates (fp32
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

// A tensor as published files have it: what is initialised, updated, saved and exported. `master` and `gradient` are views.
struct Parameter {
  std::string name;  // full name, as in published files
  std::vector<int64_t> shape;
  InitSpec init;
  int64_t offset = 0, numel = 0;  // in elements of the flat buffers
  at::Tensor master, gradient;    // the gradient is undefined until allocate_gradients()
};

// A tensor as modules use it: one parameter, or a stack of several that lie one behind the other (spec.h). `value` is a view of the
// compute buffer and an autograd leaf.
struct Weight {
  std::string name;  // the parameter's, or "model.layers.0.mlp.experts.gate_up_proj" for a stack
  std::vector<int64_t> shape;
  int64_t offset = 0, numel = 0;
  at::Tensor value;
  GradientSink sink;

  GradientSink* gradient_sink() { return sink.gradient().defined() ? &sink : nullptr; }
};

struct UnitDtypes {
  at::ScalarType master = at::kFloat, compute = at::kFloat, gradient = at::kFloat;
};

class ParameterUnit {
 public:
  // Allocates master and compute buffers (zeroed) for all parameters of `nodes` and of what lies below them.
  ParameterUnit(std::string name, const std::vector<const ModuleSpec*>& nodes, const UnitDtypes& dtypes);

  const std::string& name() const { return name_; }
  std::vector<std::unique_ptr<Parameter>>& parameters() { return parameters_; }
  const std::vector<std::unique_ptr<Parameter>>& parameters() const { return parameters_; }
  std::vector<std::unique_ptr<Weight>>& weights() { return weights_; }

  void allocate_gradients();  // once, before training
  void begin_step();          // the next gradient of each weight stores
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
  void lay_out(const ModuleSpec& node);
  void add_parameter(const ModuleSpec& node, const ParameterSpec& spec);
  void add_weight(std::string name, std::vector<int64_t> shape, int64_t offset, int64_t numel);

  std::string name_;
  UnitDtypes dtypes_;
  std::vector<std::unique_ptr<Parameter>> parameters_;
  std::vector<std::unique_ptr<Weight>> weights_;
  int64_t flat_size_ = 0;  // with the padding between parameters
  at::Tensor master_, compute_, gradient_;
  int64_t master_generation_ = 1, compute_generation_ = 0;
};

// A zeroed one-dimensional tensor on pages of its own, advised as huge ones: they are touched once and kept for the whole run.
at::Tensor allocate_flat(int64_t count, at::ScalarType dtype);

}  // namespace trine
