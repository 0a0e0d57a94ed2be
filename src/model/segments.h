// A built model: an ordered list of segments (embedding, each decoder layer, head), each with its own unit of parameters.
//
// Whoever runs a model walks the list; there is no forward() of the whole. Each segment takes the hidden state and gives the next, the
// head gives the loss or logits. The tied embedding belongs to the embedding's unit and the head refers to it.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

#include "model/batch_inputs.h"
#include "model/model_args.h"
#include "model/modules.h"
#include "model/parameter_unit.h"

namespace trine {

class Segment {
 public:
  explicit Segment(std::unique_ptr<ParameterUnit> unit) : unit_(std::move(unit)) {}
  virtual ~Segment() = default;

  // Embedding: `h_bsh` is ignored. Decoder layer: [B, S, H] to [B, S, H]. Head: the sum of the token losses times
  // batch.loss_scale, an fp32 scalar.
  virtual at::Tensor forward(const at::Tensor& h_bsh, const BatchInputs& batch) = 0;

  ParameterUnit& unit() { return *unit_; }
  const std::string& name() const { return unit_->name(); }

 private:
  std::unique_ptr<ParameterUnit> unit_;
};

class HeadSegment : public Segment {
 public:
  HeadSegment(std::unique_ptr<ParameterUnit> unit, const ModuleSpec& norm, const WeightLookup& lookup, Weight& head);
  at::Tensor forward(const at::Tensor& h_bsh, const BatchInputs& batch) override;
  at::Tensor logits(const at::Tensor& h_bsh);  // [B, S, V] in the compute dtype

 private:
  RmsNorm norm_;
  Weight& head_;
};

class Model {
 public:
  // Builds every segment of `spec` with zeroed parameters.
  Model(const ModelArgs& args, const ModuleSpec& spec, const UnitDtypes& dtypes);

  const ModelArgs& args() const { return args_; }
  std::vector<std::unique_ptr<Segment>>& segments() { return segments_; }
  HeadSegment& head() { return static_cast<HeadSegment&>(*segments_.back()); }
  std::vector<Parameter*> parameters();  // in tree order
  std::vector<Weight*> weights();        // the same values as modules see them, a stack of parameters as one
  Parameter& parameter(const std::string& name);

  void initialize(uint64_t seed);  // random start; see init.h
  void allocate_gradients();
  // To be called when master values were written from outside (a load).
  void masters_changed();

  // Forward without gradients up to the last hidden state, gathering each segment's parameters on the way.
  at::Tensor hidden_states(const BatchInputs& batch);
  // Logits of every position, [B, S, V] (inference; mind the size), or of the last position only, [B, 1, V].
  at::Tensor logits(const BatchInputs& batch, bool last_only = false);
  // The sum of token losses times batch.loss_scale, without gradients.
  double loss(const BatchInputs& batch);

  KvCache make_cache(int64_t rows, int64_t capacity) const;

 private:
  ModelArgs args_;
  UnitDtypes dtypes_;
  std::vector<std::unique_ptr<Segment>> segments_;
  std::map<std::string, Parameter*> parameters_;
};

}  // namespace trine
