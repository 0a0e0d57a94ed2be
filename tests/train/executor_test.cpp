#include <gtest/gtest.h>

#include <algorithm>

#include "base/errors.h"
#include "optim/adamw_optimizer.h"
#include "tests/model/tiny_model.h"
#include "train/step.h"

namespace trine {
namespace {

ActivationCheckpointConfig mode(const std::string& name, int64_t every = 2) {
  ActivationCheckpointConfig config;
  config.mode = name;
  config.selective_ac_option = every;
  return config;
}

using Gradients = std::map<std::string, at::Tensor>;
Gradients gradients(Model& model) {
  Gradients result;
  for (const Parameter* parameter : model.parameters()) result[parameter->name] = parameter->gradient.clone();
  return result;
}

// The loss and every gradient from one autograd graph over the whole model, with plain ops and no sink.
std::pair<double, Gradients> whole_graph(Model& model, const BatchInputs& batch) {
  at::Tensor h;
  for (size_t i = 0; i + 1 < model.segments().size(); ++i) {
    model.segments()[i]->unit().gather();
    h = model.segments()[i]->forward(h, batch);
  }
  model.head().unit().gather();
  const at::Tensor logits = model.head().logits(h);
  const at::Tensor loss = at::cross_entropy_loss(logits.view({-1, logits.size(-1)}), batch.labels_bs.reshape({-1}), {},
                                                 at::Reduction::Sum, kIgnoreIndex) * batch.loss_scale;
  loss.backward();
  Gradients result;
  for (Weight* weight : model.weights()) {
    result[weight->name] = weight->value.grad().clone();
    weight->value.mutable_grad().reset();
  }
  return {loss.item<double>(), result};
}

BatchInputs packed_batch() {
  BatchInputs batch = packed(tiny_batch(2, 12), {{0, 5}, {0, 2, 11}});
  batch.loss_scale = 1.0 / static_cast<double>(num_valid(batch));
  return batch;
}

TEST(Executor, SegmentBySegmentEqualsOneWholeGraph) {
  for (bool tied : {true, false}) {  // tied: the embedding's gradient holds the head's part and the rows', each once
    const auto model = tiny_model(all(at::kDouble), tiny_args(tied));
    const BatchInputs batch = packed_batch();
    const auto [expected_loss, expected] = whole_graph(*model, batch);
    Executor executor(*model, mode("none"));
    for (int step = 0; step < 2; ++step) {  // a second step must not keep the first one's gradients
      EXPECT_NEAR(executor.forward_backward({batch}), expected_loss, 1e-12);
      for (const auto& [name, gradient] : gradients(*model)) {
        EXPECT_LT(difference(gradient, expected.at(name)), 1e-12) << name << (tied ? ", tied" : ", untied");
      }
    }
  }
}

TEST(Executor, EveryModeOfActivationCheckpointingGivesTheSameBits) {
  for (const UnitDtypes& dtypes : {all(at::kFloat), UnitDtypes{.master = at::kFloat, .compute = at::kBFloat16, .gradient = at::kFloat}}) {
    const BatchInputs batch = packed_batch();
    const auto run = [&](const ActivationCheckpointConfig& config) {
      const auto model = tiny_model(dtypes);
      Executor executor(*model, config);
      const double loss = executor.forward_backward({batch});
      return std::pair{loss, gradients(*model)};
    };
    const auto [loss, expected] = run(mode("none"));
    for (const auto& config : {mode("full"), mode("selective", 1), mode("selective", 2)}) {
      const auto [other_loss, others] = run(config);
      EXPECT_EQ(other_loss, loss);
      for (const auto& [name, gradient] : others) EXPECT_TRUE(at::equal(gradient, expected.at(name))) << config.mode << ": " << name;
    }
  }
}

BatchInputs rows_of(const BatchInputs& batch, int64_t begin, int64_t count) {
  BatchInputs part;
  part.input_ids_bs = batch.input_ids_bs.narrow(0, begin, count);
  part.labels_bs = batch.labels_bs.narrow(0, begin, count);
  part.longest = batch.longest;
  part.loss_scale = batch.loss_scale;
  return part;
}

TEST(Executor, AccumulationOverOneTwoOrFourMicroBatchesGivesTheSameStep) {  // case E1
  BatchInputs batch = tiny_batch(4, 10);
  batch.labels_bs[0].narrow(0, 1, 9).fill_(kIgnoreIndex);  // one label in the first row, nine in the others
  batch.loss_scale = 1.0 / static_cast<double>(num_valid(batch));
  OptimizerConfig settings{.name = "AdamW", .lr = 0.01, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .state_dtype = "float32"};
  std::vector<double> losses, norms;
  std::vector<Gradients> steps;
  for (int64_t num_micro_batches : {1, 2, 4}) {
    const auto model = tiny_model(all(at::kFloat));
    Executor executor(*model, mode("none"));
    AdamWOptimizer optimizer(*model, settings);
    std::vector<BatchInputs> micro_batches;
    const int64_t rows = 4 / num_micro_batches;
    for (int64_t i = 0; i < num_micro_batches; ++i) micro_batches.push_back(rows_of(batch, i * rows, rows));
    losses.push_back(executor.forward_backward(micro_batches));
    norms.push_back(optimizer.gradient_norm());
    steps.push_back(gradients(*model));
  }
  for (size_t i : {1u, 2u}) {
    EXPECT_NEAR(losses[i] / losses[0], 1, 1e-6);
    EXPECT_NEAR(norms[i] / norms[0], 1, 1e-6);
    for (const auto& [name, gradient] : steps[i]) EXPECT_LT(difference(gradient, steps[0].at(name)), 1e-5) << name;
  }
}

TEST(Executor, AStepWithoutLabelsLeavesExactZeros) {  // case E3
  const auto model = tiny_model(all(at::kFloat));
  Executor executor(*model, mode("none"));
  executor.forward_backward({packed_batch()});
  BatchInputs none = packed_batch();
  none.labels_bs.fill_(kIgnoreIndex);
  EXPECT_EQ(executor.forward_backward({none}), 0);
  for (const auto& [name, gradient] : gradients(*model)) EXPECT_EQ(gradient.abs().max().item<double>(), 0) << name;

  const double alone = executor.forward_backward({packed_batch()});
  const Gradients expected = gradients(*model);
  EXPECT_EQ(executor.forward_backward({none, packed_batch(), none}), alone) << "micro-batches without labels add exactly nothing";
  for (const auto& [name, gradient] : gradients(*model)) EXPECT_TRUE(at::equal(gradient, expected.at(name))) << name;
}

TEST(Executor, Bf16ComputeUnderFp32MastersStaysWithinBf16Rounding) {
  const auto exact = tiny_model(all(at::kDouble));
  const auto model = tiny_model({.master = at::kFloat, .compute = at::kBFloat16, .gradient = at::kFloat});
  Executor executor(*model, mode("none"));
  Executor exact_executor(*exact, mode("none"));
  const double loss = executor.forward_backward({packed_batch()}), exact_loss = exact_executor.forward_backward({packed_batch()});
  EXPECT_NEAR(loss / exact_loss, 1, 1e-2);
  const Gradients expected = gradients(*exact);
  for (const auto& [name, gradient] : gradients(*model)) {
    EXPECT_EQ(gradient.scalar_type(), at::kFloat);
    EXPECT_LT(difference(gradient, expected.at(name)), 0.08) << name;
  }
  for (const Parameter* parameter : model->parameters()) EXPECT_EQ(parameter->master.scalar_type(), at::kFloat);
}

TEST(AdamWOptimizer, LeavesNormsUndecayedAndBringsTheUpdateToTheComputeValues) {
  const auto model = tiny_model({.master = at::kFloat, .compute = at::kBFloat16, .gradient = at::kFloat});
  Executor executor(*model, mode("none"));
  AdamWOptimizer optimizer(*model, {.name = "AdamW", .lr = 0.1, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.5,
                                    .state_dtype = "float32", .no_decay = {"*norm.weight"}});
  EXPECT_EQ(optimizer.num_not_decayed(), 3 * 4 + 1);
  EXPECT_EQ(optimizer.num_decayed(), 3 * 7 + 1);
  BatchInputs none = packed_batch();
  none.labels_bs.fill_(kIgnoreIndex);
  executor.forward_backward({none});  // zero gradients: what moves is decay alone
  Parameter &norm = model->parameter("model.norm.weight"), &matrix = model->parameter("model.layers.1.mlp.up_proj.weight");
  const at::Tensor norm_before = norm.master.clone(), matrix_before = matrix.master.clone();
  optimizer.step(1, 0.1, 1);
  EXPECT_TRUE(at::equal(norm.master, norm_before));
  EXPECT_LT(difference(matrix.master, matrix_before * 0.95), 1e-6);
  executor.forward_backward({packed_batch()});
  const auto weights = model->weights();
  const Weight& in_use = **std::ranges::find(weights, matrix.name, [](const Weight* weight) { return weight->name; });
  EXPECT_TRUE(at::equal(in_use.value.detach(), matrix.master.to(at::kBFloat16))) << "gathered before the next forward";
}

TEST(AdamWOptimizer, RefusesAPatternThatMatchesNothing) {
  const auto model = tiny_model(all(at::kFloat));
  try {
    AdamWOptimizer(*model, {.name = "AdamW", .state_dtype = "float32", .no_decay = {"model.norm.wieght"}});
    FAIL() << "a pattern without a match must be an error";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("model.norm.weight"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace trine
