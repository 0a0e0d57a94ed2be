#include "model/spec.h"

#include <gmock/gmock.h>

#include <cmath>
#include <numeric>

#include "base/errors.h"
#include "model/model_args.h"

namespace trine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> names(const ModuleSpec& spec) {
  std::vector<std::string> result;
  for (const NamedParameter& parameter : named_parameters(spec)) result.push_back(parameter.name);
  return result;
}

// cases A1: q, k, v and o take heads·head_dim as it is given, which is not hidden_size here.
TEST(BuildSpec, TakesHeadDimAsGiven) {
  const ModuleSpec spec = build_spec(flavor_args("tiny"));
  const ModuleSpec& attention = spec.child("model.layers.1.self_attn");
  EXPECT_THAT(attention.child("q_proj").parameters.at(0).shape, ElementsAre(128, 64));
  EXPECT_THAT(attention.child("k_proj").parameters.at(0).shape, ElementsAre(64, 64));
  EXPECT_THAT(attention.child("v_proj").parameters.at(0).shape, ElementsAre(64, 64));
  EXPECT_THAT(attention.child("o_proj").parameters.at(0).shape, ElementsAre(64, 128));
  EXPECT_THAT(attention.child("q_norm").parameters.at(0).shape, ElementsAre(32));
  EXPECT_EQ(attention.int_option("head_dim"), 32);
}

TEST(BuildSpec, CountsTheTinyFixture) {
  ModelArgs args = flavor_args("tiny");
  EXPECT_EQ(count(args).parameters, 139712);
  args.tie_word_embeddings = true;
  EXPECT_EQ(count(args).parameters, 119232);
}

TEST(BuildSpec, GivesEveryLayerItsOwnRotaryNode) {
  int rotaries = 0;
  visit(build_spec(flavor_args("tiny")), [&](const ModuleSpec& node) { rotaries += node.kind == ModuleKind::kRotary; });
  EXPECT_EQ(rotaries, 2);
}

TEST(BuildSpec, ListsATiedHeadOnce) {
  ModelArgs args = flavor_args("tiny");
  EXPECT_THAT(names(build_spec(args)), testing::Contains("lm_head.weight"));
  args.tie_word_embeddings = true;
  EXPECT_THAT(names(build_spec(args)), testing::Not(testing::Contains("lm_head.weight")));
}

TEST(BuildSpec, HasNoHeadNormsForLlama) {
  ModelArgs args = flavor_args("tiny");
  args.model_type = "llama";
  args.qk_norm = false;
  EXPECT_THAT(names(build_spec(args)), testing::Each(testing::Not(testing::EndsWith("q_norm.weight"))));
}

TEST(BuildSpec, ScalesOnlyWhatWritesIntoTheResidualStreamByDepth) {
  ModelArgs args = flavor_args("tiny");
  args.depth_scaled_init = true;
  const ModuleSpec spec = build_spec(args);
  const ModuleSpec& layer = spec.child("model.layers.0");
  EXPECT_DOUBLE_EQ(layer.child("self_attn.o_proj").parameters.at(0).init.std, 0.02 / 2);  // sqrt(2·2 layers) = 2
  EXPECT_DOUBLE_EQ(layer.child("mlp.down_proj").parameters.at(0).init.std, 0.02 / 2);
  EXPECT_DOUBLE_EQ(layer.child("mlp.up_proj").parameters.at(0).init.std, 0.02);
  EXPECT_EQ(layer.child("input_layernorm").parameters.at(0).init.kind, InitSpec::Kind::kOnes);
}

// Published totals of the Qwen3 models: 0.6B 596,049,920 and so on follow from their files' shapes.
TEST(Flavors, HaveThePublishedSizes) {
  const std::vector<std::pair<std::string, int64_t>> published = {
      {"0.6B", 596049920},   {"1.7B", 1720574976},  {"4B", 4022468096},        {"8B", 8190735360},
      {"14B", 14768307200},  {"32B", 32762123264},  {"30B-A3B", 30532122624},  {"235B-A22B", 235093634560}};
  for (const auto& [name, parameters] : published) EXPECT_EQ(count(flavor_args(name)).parameters, parameters) << name;
}

TEST(Flavors, RefuseUnknownNamesWithTheNearest) {
  try {
    flavor_args("0.6b");
    FAIL();
  } catch (const UserError& e) {
    EXPECT_THAT(e.what(), HasSubstr("\"0.6B\""));
  }
}

// cases J1: the look-up costs nothing, the head once, attention by heads·head_dim, the causal convention stated.
TEST(Counts, FollowTheConvention) {
  const ModelCounts counts = count(flavor_args("0.6B"));
  EXPECT_EQ(counts.active_matrices, 595984384);
  EXPECT_EQ(counts.flops_per_token(4096) - counts.flops_per_token(0), 2818572288.0);
  EXPECT_EQ(counts.flops_per_token(0), 3575906304.0);
  EXPECT_EQ(counts.flops_per_token_causal(4096), 3575906304.0 + 1409286144.0);
}

TEST(Counts, CountAnUntiedHeadOnceToo) {
  ModelArgs args = flavor_args("0.6B");
  args.tie_word_embeddings = false;
  EXPECT_EQ(count(args).active_matrices, 595984384);
}

TEST(RandomLoss, IsLogOfVocabularyPlusHalfTheLogitVariance) { EXPECT_NEAR(random_loss(flavor_args("4B")), 12.443, 5e-4); }

TEST(DescribeModel, SaysWhatWillBeTrained) {
  EXPECT_THAT(describe_model(flavor_args("4B")),
              testing::AllOf(HasSubstr("36 layers"), HasSubstr("hidden 2560"), HasSubstr("32 heads (8 "), HasSubstr("tied head"),
                             HasSubstr("4,022,468,096"), HasSubstr("theta 1000000")));
}

}  // namespace
}  // namespace trine
