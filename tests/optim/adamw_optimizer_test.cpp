// AdamWOptimizer's stochastic rounding: what the noise of a parameter depends on.
#include "optim/adamw_optimizer.h"

#include <gtest/gtest.h>

#include <map>

#include "base/errors.h"
#include "tests/model/tiny_model.h"

namespace trine {
namespace {

// Every parameter of a pure bf16 model after two updates, by name.
std::map<std::string, at::Tensor> trained(int64_t num_layers, bool stochastic_rounding, uint64_t seed) {
  ModelArgs args = tiny_args();
  args.num_hidden_layers = num_layers;
  const auto model = tiny_model(all(at::kBFloat16), args);
  AdamWOptimizer optimizer(*model, {.name = "AdamW", .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .state_dtype = "bfloat16",
                                    .stochastic_rounding = stochastic_rounding}, seed);
  for (auto& segment : model->segments()) segment->unit().allocate_gradients();
  for (int64_t step = 1; step <= 2; ++step) {
    for (const Parameter* parameter : model->parameters()) {
      parameter->gradient.copy_(at::arange(parameter->numel).sub(7.5).view(parameter->shape));
    }
    optimizer.step(step, 1e-3, 1);
  }
  std::map<std::string, at::Tensor> result;
  for (const Parameter* parameter : model->parameters()) result[parameter->name] = parameter->master.clone();
  return result;
}

TEST(AdamWOptimizer, StochasticRoundingDependsOnSeedAndNameNotOnTheModelAround) {
  const auto three = trained(3, true, 5), two = trained(2, true, 5), other_seed = trained(3, true, 6), nearest = trained(3, false, 5);
  for (const auto& [name, values] : two) EXPECT_TRUE(at::equal(values, three.at(name))) << name;
  const std::string matrix = "model.layers.1.mlp.up_proj.weight";
  EXPECT_FALSE(at::equal(three.at(matrix), other_seed.at(matrix)));
  EXPECT_FALSE(at::equal(three.at(matrix), nearest.at(matrix)));
  // Norms begin alike and get the same gradients in every layer, so only the names can tell them apart.
  const std::string norm = "input_layernorm.weight";
  EXPECT_FALSE(at::equal(three.at("model.layers.0." + norm), three.at("model.layers.1." + norm)));
  EXPECT_TRUE(at::equal(nearest.at("model.layers.0." + norm), nearest.at("model.layers.1." + norm)));
}

TEST(AdamWOptimizer, RefusesToRoundFp32MastersAtRandom) {
  const auto model = tiny_model({.master = at::kFloat, .compute = at::kBFloat16, .gradient = at::kFloat});
  EXPECT_THROW(AdamWOptimizer(*model, {.name = "AdamW", .state_dtype = "float32", .stochastic_rounding = true}), UserError);
}

}  // namespace
}  // namespace trine
