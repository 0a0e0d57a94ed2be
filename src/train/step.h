// The executor: one optimiser step of any model that is a list of segments.
//
// Every segment is an autograd graph of its own with detached edges. Without activation checkpointing the graphs of the forward pass
// are kept; with it a segment keeps its input only and is run again before its backward. Bringing parameters in, recomputation and
// gradient deposit are lines of the loop in step.cpp, in the order in which they happen.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <string>
#include <vector>

#include "config/config.h"
#include "model/segments.h"

namespace trine {

class Executor {
 public:
  // Allocates the model's gradients.
  Executor(Model& model, const ActivationCheckpointConfig& activation_checkpoint);

  // Forward and backward of one step's micro-batches; gradients of all of them are summed into the units' gradient buffers. Returns
  // the sum of the micro-batches' scaled losses: with loss_scale = 1 / (valid tokens of the step), the mean loss over those tokens.
  double forward_backward(const std::vector<BatchInputs>& micro_batches);

 private:
  double run_micro_batch(const BatchInputs& batch);
  bool recomputes(size_t segment) const;

  Model& model_;
  ActivationCheckpointConfig activation_checkpoint_;
};

}  // namespace trine
