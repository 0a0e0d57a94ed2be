// Which of flavor, config.json and explicit options counts, and what is refused before weights are read.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "base/errors.h"
#include "model/model_args.h"
#include "model/named_size.h"

namespace trine {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Resolve : public testing::Test {
 protected:
  ~Resolve() override { std::filesystem::remove_all(root_); }

  // A folder whose config.json describes `args`.
  std::string folder_of(const std::string& name, const ModelArgs& args) {
    const auto folder = root_ / name;
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "config.json") << write_config_json(args, "", "bfloat16");
    return folder.string();
  }
  std::string error_of(const Config& config, bool weights_loaded) {
    try {
      resolve_model_args(config, weights_loaded);
    } catch (const UserError& e) {
      return e.what();
    }
    return "no error";
  }
  std::string warnings_of(const Config& config, bool weights_loaded = false) {
    testing::internal::CaptureStderr();
    resolve_model_args(config, weights_loaded);
    return testing::internal::GetCapturedStderr();
  }

  const std::filesystem::path root_ = std::filesystem::temp_directory_path() / ("trine_resolve_" + std::to_string(::getpid()));
};

TEST_F(Resolve, TakesExplicitOverFileOverFlavor) {
  Config config;
  config.model.flavor = "debugmodel";
  EXPECT_EQ(resolve_model_args(config, false).hidden_size, 256);
  config.model.hf_assets_path = folder_of("tiny", flavor_args("tiny"));
  EXPECT_EQ(resolve_model_args(config, false).hidden_size, 64);
  config.model.hidden_size = 32;
  config.model.rope_theta = 5e6;
  const ModelArgs args = resolve_model_args(config, false);
  EXPECT_EQ(args.hidden_size, 32);
  EXPECT_EQ(args.rope.theta, 5e6);
  EXPECT_EQ(args.num_hidden_layers, 2);
}

TEST_F(Resolve, SaysWhatAFlavorWouldHaveBeen) {
  Config config;
  config.model.flavor = "debugmodel";
  config.model.hf_assets_path = folder_of("tiny", flavor_args("tiny"));
  EXPECT_THAT(warnings_of(config), AllOf(HasSubstr("hidden_size 256 and 64"), HasSubstr("num_hidden_layers 8 and 2")));
}

TEST_F(Resolve, RefusesAFlavorOfAnotherSizeThanTheWeights) {
  Config config;
  config.recipe = "recipes/qwen3_4b_native.toml";
  config.model.flavor = "4B";
  config.model.hf_assets_path = folder_of("small", flavor_args("0.6B"));
  EXPECT_THAT(error_of(config, true),
              AllOf(HasSubstr("4.02B parameters"), HasSubstr("596M parameters"), HasSubstr("num_hidden_layers 36 and 28")));
}

// Published folders of one size differ in rotary base and context length; the file of the weights is right about them.
TEST_F(Resolve, LetsTheWeightsFileCorrectTheFlavorsBase) {
  ModelArgs instruct = flavor_args("4B");
  instruct.rope.theta = 5e6;
  instruct.max_position_embeddings = 262144;
  Config config;
  config.model.flavor = "4B";
  config.model.hf_assets_path = folder_of("instruct", instruct);
  EXPECT_EQ(resolve_model_args(config, true).rope.theta, 5e6);
  EXPECT_THAT(warnings_of(config, true), HasSubstr("rope_theta 1000000 and 5000000"));
}

TEST_F(Resolve, RefusesAnOptionThatContradictsTheWeights) {
  Config config;
  config.model.hf_assets_path = folder_of("tiny", flavor_args("tiny"));
  config.model.rope_theta = 1e4;
  EXPECT_THAT(error_of(config, true), AllOf(HasSubstr("rope_theta 10000 and 1000000"), HasSubstr("config.json")));
  config.model.rope_theta = 1e6;  // saying the same again is no difference
  EXPECT_EQ(resolve_model_args(config, true).rope.theta, 1e6);
}

TEST_F(Resolve, ReadsTheFileBesideTheWeights) {
  Config config;
  config.checkpoint.initial_load_path = folder_of("tiny", flavor_args("tiny"));
  EXPECT_EQ(resolve_model_args(config, true).hidden_size, 64);
  config.model.hf_assets_path = folder_of("debug", flavor_args("debugmodel"));
  EXPECT_THAT(error_of(config, true), AllOf(HasSubstr("different models"), HasSubstr("hidden_size 256 and 64")));
  EXPECT_EQ(resolve_model_args(config, false).hidden_size, 256);  // nothing is loaded from there
}

TEST_F(Resolve, AsksForAModelIfThereIsNone) {
  Config config;
  EXPECT_THAT(error_of(config, false), AllOf(HasSubstr("model.flavor"), HasSubstr("model.hf_assets_path"), HasSubstr("0.6B")));
  config.model.hf_assets_path = (root_ / "absent").string();
  EXPECT_THAT(error_of(config, false), AllOf(HasSubstr("absent"), HasSubstr("no such folder")));
}

TEST_F(Resolve, RefusesImpossibleCombinations) {
  Config config;
  config.model.flavor = "tiny";
  config.model.num_key_value_heads = 3;
  EXPECT_THAT(error_of(config, false), HasSubstr("num_key_value_heads is 3"));
}

TEST_F(Resolve, WarnsWhenANameSaysAnotherSize) {
  Config config;
  config.recipe = "recipes/qwen3_4b_native.toml";
  config.model.flavor = "4B";
  EXPECT_EQ(warnings_of(config), "");
  config.model.num_hidden_layers = 4;
  EXPECT_THAT(warnings_of(config), AllOf(HasSubstr("recipe's name \"qwen3_4b_native\" says 4b"), HasSubstr("flavor \"4B\" says 4B")));
}

TEST(SizeThatDoesNotFit, ReadsTheNamesOfRecipesAndModels) {
  EXPECT_EQ(size_that_does_not_fit("qwen3_0.6b", {596049920}), "");
  EXPECT_EQ(size_that_does_not_fit("qwen3_0_6b", {596049920}), "");
  EXPECT_EQ(size_that_does_not_fit("smollm2_135m_finetune", {134515008}), "");
  EXPECT_EQ(size_that_does_not_fit("Qwen3-1.7B-Base", {1720574976}), "");
  EXPECT_EQ(size_that_does_not_fit("qwen3_32b", {4022468096}), "32b");
  EXPECT_EQ(size_that_does_not_fit("smollm2_360m", {134515008}), "360m");
  EXPECT_EQ(size_that_does_not_fit("quickstart", {1}), "");
  EXPECT_EQ(size_that_does_not_fit("ablation7big_a3b", {1}), "");
  EXPECT_EQ(size_that_does_not_fit("30B-A3B", {30532122624, 48, 128}), "");
}

// Beside what a model was reduced to, the size is that of the whole one.
TEST(SizeThatDoesNotFit, ReadsWhatAModelWasReducedTo) {
  const NamedSizes reduced{1906330624, 4, 64};
  EXPECT_EQ(size_that_does_not_fit("30B-A3B-4L64E", reduced), "");
  EXPECT_EQ(size_that_does_not_fit("qwen3_30b_a3b_4l64e", reduced), "");
  EXPECT_EQ(size_that_does_not_fit("qwen3_30b_a3b", reduced), "30b");
  EXPECT_EQ(size_that_does_not_fit("qwen3_30b_a3b_4l128e", reduced), "4L128E");
  EXPECT_EQ(size_that_does_not_fit("qwen3_4b_8l", reduced), "8L");
}

}  // namespace
}  // namespace trine
