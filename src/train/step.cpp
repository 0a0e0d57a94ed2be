#include "train/step.h"

#include <stdexcept>

namespace trine {
namespace {

// Gradients that autograd left on weights (of ops without a sink) move to their place.
void deposit_gradients(ParameterUnit& unit) {
  for (auto& weight : unit.weights()) {
    at::Tensor& gradient = weight->value.mutable_grad();
    if (!gradient.defined()) continue;
    weight->sink.add(gradient);
    gradient.reset();
  }
}

}  // namespace

Executor::Executor(Model& model, const ActivationCheckpointConfig& activation_checkpoint)
    : model_(model), activation_checkpoint_(activation_checkpoint) {
  model.allocate_gradients();
}

bool Executor::recomputes(size_t segment) const {
  // The head's backward follows its forward at once, and the embedding keeps nothing: both gain nothing.
  if (segment == 0 || segment + 1 == model_.segments().size()) return false;
  if (activation_checkpoint_.mode == "full") return true;
  return activation_checkpoint_.mode == "selective" && (static_cast<int64_t>(segment) - 1) % activation_checkpoint_.selective_ac_option == 0;
}

double Executor::forward_backward(const std::vector<BatchInputs>& micro_batches) {
  for (auto& segment : model_.segments()) segment->unit().begin_step();
  double loss = 0;
  for (const BatchInputs& batch : micro_batches) loss += run_micro_batch(batch);
  for (auto& segment : model_.segments()) segment->unit().finish_step();
  return loss;
}

double Executor::run_micro_batch(const BatchInputs& batch) {
  auto& segments = model_.segments();
  const size_t num_segments = segments.size();
  std::vector<at::Tensor> inputs(num_segments), outputs(num_segments);
  std::vector<int64_t> generations(num_segments);

  at::Tensor h;
  for (size_t i = 0; i < num_segments; ++i) {
    segments[i]->unit().gather();
    generations[i] = segments[i]->unit().generation();
    if (i > 0) inputs[i] = h.detach().requires_grad_(true);
    if (recomputes(i)) {
      at::NoGradGuard no_grad;
      h = segments[i]->forward(inputs[i], batch);
    } else {
      outputs[i] = segments[i]->forward(inputs[i], batch);
      h = outputs[i];
    }
  }
  const double loss = h.item<double>();
  h.reset();

  at::Tensor gradient = at::ones_like(outputs.back());
  for (size_t i = num_segments; i-- > 0;) {
    segments[i]->unit().gather();
    if (segments[i]->unit().generation() != generations[i]) {
      throw std::logic_error("parameters of segment " + segments[i]->name() + " changed between forward and backward");
    }
    if (recomputes(i)) outputs[i] = segments[i]->forward(inputs[i], batch);
    torch::autograd::backward({outputs[i]}, {gradient});
    deposit_gradients(segments[i]->unit());
    gradient = i > 0 ? inputs[i].grad() : at::Tensor();
    inputs[i].reset();
    outputs[i].reset();
  }
  return loss;
}

}  // namespace trine
