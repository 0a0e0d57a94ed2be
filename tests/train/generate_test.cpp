#include "train/generate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "base/errors.h"
#include "tests/model/tiny_model.h"

namespace trine {
namespace {

// How often each token is chosen when `uniform` walks evenly over [0, 1).
std::map<int64_t, double> shares(const at::Tensor& logits, const SamplingOptions& options) {
  constexpr int kDraws = 20000;
  std::map<int64_t, double> result;
  for (int i = 0; i < kDraws; ++i) result[choose_token(logits, options, (i + 0.5) / kDraws)] += 1.0 / kDraws;
  return result;
}

// Probabilities 0.5, 0.25, 0.125, 0.125, with token 2 the most likely.
at::Tensor known_logits() { return torch::tensor({0.25, 0.125, 0.5, 0.125}, at::kDouble).log(); }

TEST(ChooseToken, TakesTheMostLikelyAtTemperatureZeroAndTheSmallestIdOfEquals) {
  EXPECT_EQ(choose_token(known_logits(), {}, 0.99), 2);
  EXPECT_EQ(choose_token(torch::tensor({1.0, 3.0, 3.0}, at::kFloat), {}, 0.5), 1);
}

TEST(ChooseToken, DrawsByProbability) {
  const auto found = shares(known_logits(), {.temperature = 1});
  EXPECT_NEAR(found.at(0), 0.25, 1e-3);
  EXPECT_NEAR(found.at(1), 0.125, 1e-3);
  EXPECT_NEAR(found.at(2), 0.5, 1e-3);
  EXPECT_NEAR(found.at(3), 0.125, 1e-3);
}

TEST(ChooseToken, TemperatureRaisesProbabilitiesToItsInverse) {
  const auto found = shares(known_logits(), {.temperature = 0.5});  // squares: 16, 4, 1, 1 of 22
  EXPECT_NEAR(found.at(2), 16.0 / 22, 1e-3);
  EXPECT_NEAR(found.at(0), 4.0 / 22, 1e-3);
}

TEST(ChooseToken, TopKAndTopPKeepTheFewestAndRenormalise) {
  const auto two = shares(known_logits(), {.temperature = 1, .top_k = 2});
  EXPECT_EQ(two.size(), 2u);
  EXPECT_NEAR(two.at(2), 2.0 / 3, 1e-3);
  EXPECT_EQ(shares(known_logits(), {.temperature = 1, .top_p = 0.5}).size(), 1u);
  EXPECT_EQ(shares(known_logits(), {.temperature = 1, .top_p = 0.51}).size(), 2u);
  EXPECT_EQ(shares(known_logits(), {.temperature = 1, .top_p = 1e-9}).size(), 1u) << "never none";
  EXPECT_EQ(shares(known_logits(), {.temperature = 1, .top_k = 2, .top_p = 0.6}).size(), 1u) << "top_p counts what top_k left";
}

TEST(ChooseToken, RefusesSettingsWithoutSenseAndLogitsThatAreNotFinite) {
  EXPECT_THROW((SamplingOptions{.temperature = -1}.check()), UserError);
  EXPECT_THROW((SamplingOptions{.top_k = -1}.check()), UserError);
  EXPECT_THROW((SamplingOptions{.top_p = 0}.check()), UserError);
  EXPECT_THROW((SamplingOptions{.top_p = 1.5}.check()), UserError);
  EXPECT_THROW(choose_token(torch::tensor({1.0, std::nan("")}), {}, 0), RunStopped);
}

const std::vector<int32_t> kPrompt = {5, 9, 2, 30};

TEST(Generate, GreedyTokensAreThoseOfAForwardPassOverEverythingBefore) {
  const auto model = tiny_model(all(at::kFloat));
  std::vector<int32_t> heard;
  const std::vector<int32_t> generated = generate(*model, kPrompt, {.max_new_tokens = 20}, [&](int32_t id) { heard.push_back(id); });
  std::vector<int32_t> expected, all_ids = kPrompt;
  for (int i = 0; i < 20; ++i) {
    BatchInputs inputs;
    inputs.input_ids_bs = torch::tensor(all_ids, at::kLong).unsqueeze(0);
    all_ids.push_back(model->logits(inputs, /*last_only=*/true).argmax(-1).item<int32_t>());
    expected.push_back(all_ids.back());
  }
  EXPECT_EQ(generated, expected);
  EXPECT_EQ(heard, expected);
}

TEST(Generate, StopsAfterAnEndToken) {
  const auto model = tiny_model(all(at::kFloat));
  const std::vector<int32_t> all_tokens = generate(*model, kPrompt, {.max_new_tokens = 10});
  const int32_t end = all_tokens[3];
  const auto first = std::find(all_tokens.begin(), all_tokens.end(), end) - all_tokens.begin();
  const std::vector<int32_t> stopped = generate(*model, kPrompt, {.max_new_tokens = 10, .end_tokens = {49, end}});
  EXPECT_EQ(stopped, std::vector<int32_t>(all_tokens.begin(), all_tokens.begin() + first + 1));
}

TEST(Generate, SamplingDependsOnTheSeedAlone) {
  const auto model = tiny_model(all(at::kFloat));
  const auto with_seed = [&](uint64_t seed) {
    return generate(*model, kPrompt, {.max_new_tokens = 30, .sampling = {.temperature = 1.5}, .seed = seed});
  };
  EXPECT_EQ(with_seed(1), with_seed(1));
  EXPECT_NE(with_seed(1), with_seed(2));
}

TEST(Generate, EndsWithTheModelsPositions) {
  const auto model = tiny_model(all(at::kFloat));
  EXPECT_EQ(generate(*model, kPrompt, {.max_new_tokens = 1000}).size(), 60u);
  EXPECT_THROW(generate(*model, std::vector<int32_t>(64, 1), {}), UserError);
}

TEST(Generate, RefusesAnEmptyPromptAndIdsWithoutARow) {
  const auto model = tiny_model(all(at::kFloat));
  EXPECT_THROW(generate(*model, std::vector<int32_t>{}, {}), UserError);
  EXPECT_THROW(generate(*model, std::vector<int32_t>{50}, {}), UserError);
}

}  // namespace
}  // namespace trine
