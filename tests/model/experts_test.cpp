// A mixture of experts in everything that needs no tensors: config.json, which layers are sparse, the tree, counts, options.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "model/model_args.h"

namespace trine {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// The fixture "Tm" as a published file has it.
nlohmann::json tiny_moe() {
  return {{"model_type", "qwen3_moe"}, {"vocab_size", 320},         {"hidden_size", 64},          {"intermediate_size", 128},
          {"num_hidden_layers", 2},    {"num_attention_heads", 4},  {"num_key_value_heads", 2},   {"head_dim", 32},
          {"rms_norm_eps", 1e-6},      {"rope_theta", 1e6},         {"tie_word_embeddings", false}, {"max_position_embeddings", 4096},
          {"num_experts", 8},          {"num_experts_per_tok", 2},  {"moe_intermediate_size", 32}, {"norm_topk_prob", true},
          {"decoder_sparse_step", 1},  {"mlp_only_layers", nlohmann::json::array()}};
}

nlohmann::json tiny_moe_with(const std::string& key, const nlohmann::json& value) {
  nlohmann::json json = tiny_moe();
  json[key] = value;
  return json;
}

nlohmann::json tiny_moe_without(const std::string& key) {
  nlohmann::json json = tiny_moe();
  json.erase(key);
  return json;
}

ModelArgs read(const nlohmann::json& json) { return parse_config_json(json.dump(), "config.json"); }

template <class Action>
std::string error_of(const Action& action) {
  try {
    action();
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}
std::string error_of(const nlohmann::json& json) {
  return error_of([&] { read(json); });
}

template <class Action>
std::string warnings_of(const Action& action) {
  testing::internal::CaptureStderr();
  action();
  return testing::internal::GetCapturedStderr();
}

std::vector<int64_t> sparse_layers(const ModelArgs& args) {
  std::vector<int64_t> result;
  for (int64_t layer = 0; layer < args.num_hidden_layers; ++layer) {
    if (args.is_sparse(layer)) result.push_back(layer);
  }
  return result;
}

// case A9
TEST(ExpertsInConfigJson, AreReadUnderEitherKey) {
  EXPECT_EQ(read(tiny_moe()).num_experts, 8);
  nlohmann::json other = tiny_moe_without("num_experts");
  EXPECT_THAT(error_of(other), AllOf(HasSubstr("num_experts"), HasSubstr("num_local_experts")));
  other["num_local_experts"] = 8;
  EXPECT_EQ(read(other).num_experts, 8);
  other["num_experts"] = 8;
  EXPECT_EQ(read(other).num_experts, 8);
  other["num_experts"] = 16;
  EXPECT_THAT(error_of(other), AllOf(HasSubstr("num_experts is 16"), HasSubstr("num_local_experts is 8")));
  EXPECT_THAT(error_of(tiny_moe_with("num_experts", 0)), HasSubstr("\"num_experts\" is 0"));
}

// case A8
TEST(ExpertsInConfigJson, DoNotNormaliseUnlessTheFileSaysSo) {
  EXPECT_TRUE(read(tiny_moe()).norm_topk_prob);
  EXPECT_FALSE(read(tiny_moe_without("norm_topk_prob")).norm_topk_prob);
}

TEST(ExpertsInConfigJson, TakeTheClassDefaultsForAbsentKeys) {
  const nlohmann::json bare = {{"model_type", "qwen3_moe"}, {"num_experts", 128}, {"rope_theta", 1e6}};
  ModelArgs args;
  const std::string warnings = warnings_of([&] { args = read(bare); });
  EXPECT_EQ(args.hidden_size, 2048);
  EXPECT_EQ(args.num_hidden_layers, 24);
  EXPECT_EQ(args.num_key_value_heads, 4);
  EXPECT_EQ(args.head_dim, 64);  // hidden / heads, as the published class derives it
  EXPECT_EQ(args.num_experts_per_tok, 8);
  EXPECT_EQ(args.moe_intermediate_size, 768);
  EXPECT_EQ(args.router_aux_loss_coef, 0.001);
  EXPECT_THAT(warnings, AllOf(HasSubstr("num_experts_per_tok = 8"), HasSubstr("moe_intermediate_size = 768")));
}

// case A7
TEST(ExpertsInConfigJson, AreInTheLayersOfThePattern) {
  nlohmann::json json = tiny_moe_with("num_hidden_layers", 4);
  EXPECT_THAT(sparse_layers(read(json)), ElementsAre(0, 1, 2, 3));
  json["mlp_only_layers"] = nullptr;
  EXPECT_THAT(sparse_layers(read(json)), ElementsAre(0, 1, 2, 3));
  json["decoder_sparse_step"] = 2;
  EXPECT_THAT(sparse_layers(read(json)), ElementsAre(1, 3));
  json["mlp_only_layers"] = {3};
  const ModelArgs args = read(json);
  EXPECT_THAT(sparse_layers(args), ElementsAre(1));
  const ModuleSpec spec = build_spec(args);
  EXPECT_EQ(spec.child("model.layers.1.mlp").kind, ModuleKind::kMoeBlock);
  for (const int layer : {0, 2, 3}) {
    const ModuleSpec& mlp = spec.child(fmt::format("model.layers.{}.mlp", layer));
    EXPECT_EQ(mlp.kind, ModuleKind::kMlp);
    EXPECT_THAT(mlp.child("gate_proj").parameters.at(0).shape, ElementsAre(128, 64));  // intermediate_size, not the experts'
  }
}

TEST(ExpertsInConfigJson, WarnOfAPatternThatLeavesNoneOrNamesNoLayer) {
  EXPECT_THAT(warnings_of([] { read(tiny_moe_with("decoder_sparse_step", 3)); }), HasSubstr("none of the 2 layers"));
  EXPECT_THAT(warnings_of([] { read(tiny_moe_with("mlp_only_layers", {0, 2})); }), HasSubstr("beyond the last, 1"));
  EXPECT_EQ(warnings_of([] { read(tiny_moe()); }), "");
}

TEST(ExpertsInConfigJson, AreRefusedWhereTheyMakeNoSense) {
  EXPECT_THAT(error_of(tiny_moe_with("num_experts_per_tok", 9)),
              AllOf(HasSubstr("num_experts_per_tok is 9"), HasSubstr("num_experts is 8")));
  for (const nlohmann::json& bad : std::vector<nlohmann::json>{"0", {-1}, {1.5}, {"a"}, 3, {int64_t{1} << 40}}) {
    EXPECT_THAT(error_of(tiny_moe_with("mlp_only_layers", bad)), HasSubstr("mlp_only_layers")) << bad;
  }
  EXPECT_THAT(error_of(tiny_moe_with("decoder_sparse_step", 0)), HasSubstr("decoder_sparse_step"));
  EXPECT_THAT(error_of(tiny_moe_with("moe_intermediate_size", nullptr)), HasSubstr("moe_intermediate_size"));
  EXPECT_THAT(error_of(tiny_moe_with("use_sliding_window", true)), HasSubstr("sliding windows are not supported"));
  nlohmann::json endless = tiny_moe_with("num_hidden_layers", 4096);
  endless["num_experts"] = 1 << 14;
  EXPECT_THAT(error_of(endless), HasSubstr("4096 layers of 16384 experts"));
}

TEST(ExpertsInConfigJson, AreWrittenWholeAndReadBack) {
  ModelArgs args = read(tiny_moe());
  args.norm_topk_prob = false;
  args.decoder_sparse_step = 2;
  args.mlp_only_layers = {0};
  args.router_aux_loss_coef = 0.01;
  const ModelArgs back = parse_config_json(write_config_json(args, "", "bfloat16"), "written");
  EXPECT_EQ(back.model_type, "qwen3_moe");
  EXPECT_EQ(back.num_experts, 8);
  EXPECT_EQ(back.num_experts_per_tok, 2);
  EXPECT_EQ(back.moe_intermediate_size, 32);
  EXPECT_FALSE(back.norm_topk_prob);
  EXPECT_EQ(back.decoder_sparse_step, 2);
  EXPECT_THAT(back.mlp_only_layers, ElementsAre(0));
  EXPECT_EQ(back.router_aux_loss_coef, 0.01);
}

TEST(ExpertsInConfigJson, AreUpdatedUnderTheKeyThatTheSourceHas) {
  const auto file = std::filesystem::temp_directory_path() / fmt::format("trine_experts_{}.json", ::getpid());
  nlohmann::json source = tiny_moe_without("num_experts");
  source["num_local_experts"] = 8;
  source["router_aux_loss_coef"] = 0.002;
  std::ofstream(file) << source;
  ModelArgs args = read_config_json(file);
  args.num_experts = 4;
  args.norm_topk_prob = false;
  const auto written = nlohmann::json::parse(write_config_json(args, file, "bfloat16"));
  std::filesystem::remove(file);
  nlohmann::json expected = source;
  expected["num_local_experts"] = 4;
  expected["norm_topk_prob"] = false;
  expected["dtype"] = "bfloat16";
  EXPECT_EQ(written, expected);
}

// Published names one by one, in an order in which all gate and up matrices are one tensor, and all down matrices another.
TEST(ExpertsInTheTree, LieSoThatTheirMatricesStack) {
  const ModuleSpec spec = build_spec(flavor_args("tiny_moe"));
  const ModuleSpec& block = spec.child("model.layers.1.mlp");
  const ModuleSpec& router = block.child("gate");
  EXPECT_EQ(router.kind, ModuleKind::kRouter);
  EXPECT_THAT(router.parameters.at(0).shape, ElementsAre(8, 64));
  EXPECT_EQ(router.int_option("top_k"), 2);
  EXPECT_TRUE(router.bool_option("norm_topk_prob"));

  const ModuleSpec& experts = block.child("experts");
  EXPECT_EQ(experts.kind, ModuleKind::kExperts);
  const std::vector<NamedParameter> named = named_parameters(experts);
  ASSERT_EQ(named.size(), 24u);
  EXPECT_EQ(named[0].name, "model.layers.1.mlp.experts.0.gate_proj.weight");
  EXPECT_EQ(named[1].name, "model.layers.1.mlp.experts.0.up_proj.weight");
  EXPECT_EQ(named[2].name, "model.layers.1.mlp.experts.1.gate_proj.weight");
  EXPECT_EQ(named[16].name, "model.layers.1.mlp.experts.0.down_proj.weight");
  EXPECT_EQ(named[23].name, "model.layers.1.mlp.experts.7.down_proj.weight");
  EXPECT_THAT(experts.parameters[0].shape, ElementsAre(32, 64));
  EXPECT_THAT(experts.parameters[23].shape, ElementsAre(64, 32));

  ASSERT_EQ(experts.stacks.size(), 2u);
  EXPECT_THAT(experts.stacks[0].shape, ElementsAre(8, 64, 64));
  EXPECT_THAT(experts.stacks[1].shape, ElementsAre(8, 64, 32));
  size_t covered = 0;
  for (const StackSpec& stack : experts.stacks) {
    EXPECT_EQ(stack.first_parameter, covered);
    covered += stack.num_parameters;
    int64_t elements = 0;
    for (size_t i = stack.first_parameter; i < covered; ++i) elements += experts.parameters.at(i).numel();
    EXPECT_EQ(elements, ParameterSpec({"", stack.shape, {}}).numel()) << stack.name;
  }
  EXPECT_EQ(covered, experts.parameters.size());
}

TEST(ExpertsInTheTree, ScaleOnlyWhatWritesIntoTheResidualStreamByDepth) {
  ModelArgs args = flavor_args("tiny_moe");
  args.depth_scaled_init = true;
  const ModuleSpec spec = build_spec(args);
  const ModuleSpec& block = spec.child("model.layers.0.mlp");
  EXPECT_DOUBLE_EQ(block.child("experts").parameters.front().init.std, 0.02);
  EXPECT_DOUBLE_EQ(block.child("experts").parameters.back().init.std, 0.01);  // sqrt(2·2 layers) = 2
  EXPECT_DOUBLE_EQ(block.child("gate").parameters.front().init.std, 0.02);
}

TEST(ExpertsInCounts, AreCountedWholeAndActiveByTheirShare) {
  EXPECT_EQ(count(flavor_args("tiny_moe")).parameters, 189888);
  const ModelCounts counts = count(flavor_args("30B-A3B"));
  EXPECT_EQ(counts.active_matrices, 3041656832);
  EXPECT_EQ(counts.flops_per_token(8192), 37577293824.0);
}

// A 30B-A3B that one instance can train.
TEST(Flavors, HaveAReducedMixtureOfExperts) {
  const ModelArgs args = flavor_args("30B-A3B-4L64E");
  EXPECT_EQ(count(args).parameters, 1906330624);
  EXPECT_THAT(describe_model(args),
              AllOf(HasSubstr("qwen3_moe, 4 layers"), HasSubstr("64 experts of 768, top 4 with weights that sum to 1"),
                    HasSubstr("reduced from 48 layers and 128 experts")));
}

TEST(DescribeModel, SaysWhichLayersAreDense) {
  ModelArgs args = flavor_args("tiny_moe");
  args.mlp_only_layers = {1};
  EXPECT_THAT(describe_model(args), HasSubstr("8 experts of 32, top 2 with weights that sum to 1 in 1 layer, ffn 128 in 1 dense layer"));
  args.norm_topk_prob = false;
  args.mlp_only_layers = {};
  EXPECT_THAT(describe_model(args), HasSubstr("8 experts of 32, top 2, vocabulary"));
}

TEST(ResolveExperts, SaysWhatOptionsReduced) {
  Config config;
  config.model.flavor = "30B-A3B";
  EXPECT_THAT(describe_model(resolve_model_args(config, false)), testing::Not(HasSubstr("reduced")));
  config.model.num_hidden_layers = 4;
  config.model.num_experts = 64;
  config.model.num_experts_per_tok = 4;
  const ModelArgs args = resolve_model_args(config, false);
  EXPECT_EQ(count(args).parameters, 1906330624);
  EXPECT_THAT(describe_model(args), HasSubstr("reduced from 48 layers and 128 experts"));

  config.model = {};
  config.model.flavor = "30B-A3B-4L64E";  // reduced once more: still from the published one
  config.model.num_hidden_layers = 2;
  EXPECT_THAT(describe_model(resolve_model_args(config, false)), HasSubstr("reduced from 48 layers and 128 experts"));
  config.model = {};
  config.model.flavor = "4B";
  config.model.num_hidden_layers = 2;
  EXPECT_THAT(describe_model(resolve_model_args(config, false)), HasSubstr("reduced from 36 layers\n"));
}

TEST(ResolveExperts, RefusesOptionsOfExpertsForADenseModel) {
  Config config;
  config.model.flavor = "4B";
  config.model.num_experts = 8;
  EXPECT_THAT(error_of([&] { resolve_model_args(config, false); }), AllOf(HasSubstr("model.num_experts"), HasSubstr("dense")));
  config.model.num_experts.reset();
  config.model.norm_topk_prob = true;
  EXPECT_THAT(error_of([&] { resolve_model_args(config, false); }), HasSubstr("model.norm_topk_prob"));
}

TEST(ResolveExperts, RefusesOptionsThatContradictTheWeights) {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("trine_experts_{}", ::getpid());
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json") << tiny_moe();
  Config config;
  config.model.hf_assets_path = folder.string();
  config.model.norm_topk_prob = false;
  config.model.num_experts = 4;
  const std::string error = error_of([&] { resolve_model_args(config, true); });
  std::filesystem::remove_all(folder);
  EXPECT_THAT(error, AllOf(HasSubstr("num_experts 4 and 8"), HasSubstr("norm_topk_prob false and true")));
}

TEST(ResolveExperts, RefusesOptionsOfTrainingExpertsForADenseModel) {
  Config config;
  config.model.flavor = "tiny";
  config.moe.aux_loss = "none";
  EXPECT_EQ(error_of([&] { resolve_model_args(config, false); }), "no error");
  config.moe.aux_loss = "per_layer";
  config.moe.z_loss_weight = 0.5;
  EXPECT_THAT(error_of([&] { resolve_model_args(config, false); }), HasSubstr("aux_loss = per_layer, z_loss_weight = 0.5 need experts"));
  config.moe = {};
  config.moe.bias_update_rate = 0.001;
  EXPECT_THAT(error_of([&] { resolve_model_args(config, false); }), HasSubstr("bias_update_rate = 0.001 needs experts"));
  config.moe = {};
  config.moe.force_balance = true;
  EXPECT_THAT(error_of([&] { resolve_model_args(config, false); }), HasSubstr("force_balance = true needs experts"));
  config.model.flavor = "tiny_moe";
  EXPECT_EQ(error_of([&] { resolve_model_args(config, false); }), "no error");
}

// case F2
TEST(ResolveExperts, WarnsOfARouterThatGetsNoGradient) {
  Config config;
  config.model.flavor = "tiny_moe";
  const auto warnings = [&] { return warnings_of([&] { resolve_model_args(config, false); }); };
  EXPECT_EQ(warnings(), "");
  config.model.num_experts_per_tok = 1;
  EXPECT_THAT(warnings(), AllOf(HasSubstr("norm_topk_prob is true"), HasSubstr("it stays as it is")));
  config.moe.aux_loss = "transformers";
  config.moe.aux_loss_weight = 0.001;
  EXPECT_THAT(warnings(), HasSubstr("only the auxiliary losses train it"));
  config.model.norm_topk_prob = false;
  EXPECT_EQ(warnings(), "");
}

}  // namespace
}  // namespace trine
