#include "model/segments.h"

#include <gtest/gtest.h>

#include "tests/model/tiny_model.h"

namespace trine {
namespace {

TEST(Model, ListsParametersInTreeOrderWithATiedHeadOnce) {
  std::vector<std::string> names;
  const auto tied = tiny_model(all(at::kFloat)), untied = tiny_model(all(at::kFloat), tiny_args(false));
  for (const Parameter* parameter : tied->parameters()) names.push_back(parameter->name);
  EXPECT_EQ(names.front(), "model.embed_tokens.weight");
  EXPECT_EQ(names.back(), "model.norm.weight");
  EXPECT_EQ(untied->parameters().back()->name, "lm_head.weight");
}

TEST(Model, ParametersBeginOnCacheLinesOfEveryBuffer) {
  const auto model = tiny_model({.master = at::kFloat, .compute = at::kBFloat16, .gradient = at::kFloat});
  model->allocate_gradients();
  const auto parameters = model->parameters();
  const auto weights = model->weights();
  for (size_t i = 0; i < parameters.size(); ++i) {
    for (const at::Tensor& tensor : {parameters[i]->master, parameters[i]->gradient, weights[i]->value, weights[i]->sink.gradient()}) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data_ptr()) % 64, 0u) << parameters[i]->name;
      EXPECT_EQ(tensor.sizes().vec(), parameters[i]->shape);
    }
  }
}

TEST(ParameterUnit, GatherRoundsTheMasterAndRunsOnlyAfterAChange) {
  const auto model = tiny_model({.master = at::kFloat, .compute = at::kBFloat16, .gradient = at::kFloat});
  ParameterUnit& unit = model->segments()[1]->unit();
  const Parameter& parameter = *unit.parameters()[1];
  const Weight& weight = *unit.weights()[1];
  unit.gather();
  const int64_t generation = unit.generation();
  EXPECT_TRUE(at::equal(weight.value, parameter.master.to(at::kBFloat16)));
  parameter.master.fill_(0.3);
  unit.gather();
  EXPECT_EQ(unit.generation(), generation) << "nobody said that the master changed";
  unit.master_changed();
  unit.gather();
  EXPECT_NE(unit.generation(), generation);
  EXPECT_TRUE(at::equal(weight.value, parameter.master.to(at::kBFloat16)));
}

TEST(ParameterUnit, OneDtypeIsOneBuffer) {
  const auto model = tiny_model(all(at::kBFloat16));
  for (const Weight* weight : model->weights()) {
    EXPECT_EQ(weight->value.data_ptr(), model->parameter(weight->name).master.data_ptr()) << weight->name;
  }
}

TEST(Model, LossIsTheScaledSumOverValidTokens) {
  const auto model = tiny_model(all(at::kDouble));
  BatchInputs batch = packed(tiny_batch(2, 9), {{0, 4}, {0}});
  batch.loss_scale = 0.125;
  const at::Tensor logits = model->logits(batch);
  const at::Tensor sum = at::cross_entropy_loss(logits.view({-1, 50}), batch.labels_bs.view({-1}), {}, at::Reduction::Sum, kIgnoreIndex);
  EXPECT_NEAR(model->loss(batch), sum.item<double>() / 8, 1e-10);
  EXPECT_LT(difference(model->logits(batch, /*last_only=*/true).squeeze(1), logits.select(1, 8)), 1e-12);
}

TEST(Model, PackedDocumentsAreAsGoodAsAlone) {  // case D2: documents of 5 and 9 tokens in a row of 16, the rest padding
  for (at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const auto model = tiny_model(all(dtype));
    const BatchInputs row = packed(tiny_batch(1, 16), {{0, 5, 14}});
    BatchInputs both = row;
    both.labels_bs = row.labels_bs.clone();
    both.labels_bs[0].narrow(0, 14, 2).fill_(kIgnoreIndex);
    EXPECT_EQ(num_valid(both), 4 + 8) << "case D3: a document's last token has no label";
    double separate = 0;
    for (const auto& [begin, length] : {std::pair{0, 5}, {5, 9}}) {
      BatchInputs alone;
      alone.input_ids_bs = row.input_ids_bs.narrow(1, begin, length);
      alone.labels_bs = row.labels_bs.narrow(1, begin, length);
      alone.longest = length;
      separate += model->loss(alone);
    }
    EXPECT_NEAR(model->loss(both) / separate, 1, dtype == at::kFloat ? 1e-5 : 1e-2);

    BatchInputs other = row;
    other.input_ids_bs = row.input_ids_bs.clone();
    other.input_ids_bs[0].narrow(0, 0, 5).fill_(3);
    const at::Tensor logits = model->logits(row), changed = model->logits(other);
    EXPECT_TRUE(at::equal(logits.narrow(1, 5, 9), changed.narrow(1, 5, 9))) << "the second document does not see the first";
    EXPECT_FALSE(at::equal(logits.narrow(1, 0, 5), changed.narrow(1, 0, 5)));
  }
}

TEST(Model, ACastLeavesRotaryTablesAlone) {  // case E5
  // Positions far out, where angles in bf16 would collide: the logits of neighbours must differ as they do in fp32.
  ModelArgs args = tiny_args();
  args.max_position_embeddings = 5000;
  const auto wide = tiny_model(all(at::kFloat), args);
  const auto narrow = tiny_model(all(at::kBFloat16), args);
  BatchInputs batch = tiny_batch(1, 8);
  batch.positions_bs = at::arange(4090, 4098, at::kLong).view({1, 8});
  batch.longest = 4098;
  const at::Tensor exact = wide->logits(batch);
  EXPECT_LT(difference(narrow->logits(batch), exact), 0.05);
  batch.positions_bs = batch.positions_bs.to(at::kBFloat16).to(at::kLong);  // what bf16 would make of them
  EXPECT_GT(difference(wide->logits(batch), exact), 0.1);
}

TEST(Model, KeepingKeysAndValuesGivesTheLogitsOfTheWholeSequence) {
  const auto model = tiny_model(all(at::kFloat));
  const at::Tensor ids = tiny_batch(1, 12).input_ids_bs;
  BatchInputs whole;
  whole.input_ids_bs = ids;
  const at::Tensor expected = model->logits(whole);
  KvCache cache = model->make_cache(1, 12);
  for (const auto& [begin, length] : {std::pair{0, 5}, {5, 1}, {6, 1}, {7, 5}}) {
    BatchInputs part;
    part.input_ids_bs = ids.narrow(1, begin, length);
    part.cache = &cache;
    EXPECT_LT(difference(model->logits(part), expected.narrow(1, begin, length)), 1e-5) << begin;
  }
  EXPECT_EQ(cache.length, 12);
}

}  // namespace
}  // namespace trine
