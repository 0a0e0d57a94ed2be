// Reading and writing config.json. The row ids are those of the collected faults of public projects ("cases A").
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/json.h"
#include "model/model_args.h"

namespace trine {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

nlohmann::json tiny() {
  return {{"model_type", "qwen3"},     {"vocab_size", 320},        {"hidden_size", 64},      {"intermediate_size", 128},
          {"num_hidden_layers", 2},    {"num_attention_heads", 4}, {"num_key_value_heads", 2}, {"head_dim", 32},
          {"rms_norm_eps", 1e-6},      {"rope_theta", 1e6},        {"tie_word_embeddings", false}, {"max_position_embeddings", 4096},
          {"torch_dtype", "bfloat16"}, {"eos_token_id", 257}};
}

nlohmann::json tiny_llama() {
  nlohmann::json json = tiny();
  json["model_type"] = "llama";
  json.erase("head_dim");
  return json;
}

class ConfigJson : public testing::Test {
 protected:
  ConfigJson() { std::filesystem::create_directories(folder_); }
  ~ConfigJson() override { std::filesystem::remove_all(folder_); }

  ModelArgs read_text(const std::string& text) {
    std::ofstream(file_) << text;
    return read_config_json(file_);
  }
  ModelArgs read(const nlohmann::json& json) { return read_text(json.dump()); }
  ModelArgs read_with(const std::string& key, const nlohmann::json& value) {
    nlohmann::json json = tiny();
    json[key] = value;
    return read(json);
  }
  ModelArgs read_without(const std::string& key) {
    nlohmann::json json = tiny();
    json.erase(key);
    return read(json);
  }
  template <class Action>
  std::string error_of(const Action& action) {
    try {
      action();
    } catch (const UserError& e) {
      return e.what();
    }
    return "no error";
  }
  std::string error_of_text(const std::string& text) {
    return error_of([&] { read_text(text); });
  }
  std::string error_with(const std::string& key, const nlohmann::json& value) {
    return error_of([&] { read_with(key, value); });
  }
  std::string warnings_of(const nlohmann::json& json) {
    testing::internal::CaptureStderr();
    read(json);
    return testing::internal::GetCapturedStderr();
  }

  const std::filesystem::path folder_ = std::filesystem::temp_directory_path() / ("trine_config_json_" + std::to_string(::getpid()));
  const std::filesystem::path file_ = folder_ / "config.json";
};

// A1
TEST_F(ConfigJson, TakesHeadDimAsItStands) {
  const ModelArgs args = read(tiny());
  EXPECT_EQ(args.head_dim, 32);
  EXPECT_EQ(count(args).parameters, 139712);
  EXPECT_TRUE(args.qk_norm);
}

TEST_F(ConfigJson, DerivesAnAbsentHeadDimAsTheClassDoes) {
  EXPECT_EQ(read_without("head_dim").head_dim, 128);  // Qwen3Config's default, not 64 / 4
  EXPECT_EQ(read(tiny_llama()).head_dim, 16);
  nlohmann::json uneven = tiny_llama();
  uneven["num_attention_heads"] = 6;
  EXPECT_THAT(error_of([&] { read(uneven); }), AllOf(HasSubstr("64"), HasSubstr("num_attention_heads is 6")));
}

TEST_F(ConfigJson, LetsKeyValueHeadsFollowTheHeads) {
  EXPECT_EQ(read_with("num_key_value_heads", nullptr).num_key_value_heads, 4);
  nlohmann::json json = tiny_llama();
  json.erase("num_key_value_heads");
  EXPECT_EQ(read(json).num_key_value_heads, 4);
}

TEST_F(ConfigJson, WarnsWhenAClassDefaultStandsInForASize) {
  nlohmann::json json = tiny();
  json.erase("intermediate_size");
  EXPECT_THAT(warnings_of(json), HasSubstr("intermediate_size = 22016"));
  EXPECT_EQ(warnings_of(tiny()), "");
}

// A3
TEST_F(ConfigJson, ReadsThetaInAllItsSpellings) {
  const RopeArgs expected = read(tiny()).rope;
  EXPECT_EQ(expected.theta, 1e6);
  nlohmann::json nested = tiny();
  nested.erase("rope_theta");
  nested["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 1e6}};
  EXPECT_EQ(read(nested).rope, expected);
  nlohmann::json split = tiny();
  split["rope_parameters"] = {{"type", "default"}};
  EXPECT_EQ(read(split).rope, expected);
  nlohmann::json twice = nested;
  twice["rope_theta"] = 1000000;
  EXPECT_EQ(read(twice).rope, expected);
}

TEST_F(ConfigJson, RefusesTwoThetasAndNone) {
  EXPECT_THAT(error_with("rope_parameters", {{"rope_type", "default"}, {"rope_theta", 10000.0}}),
              AllOf(HasSubstr("1000000"), HasSubstr("10000")));
  EXPECT_THAT(error_of([&] { read_without("rope_theta"); }), HasSubstr("no rope_theta"));
  EXPECT_THAT(error_with("rope_theta", 0), HasSubstr("rope_theta is 0"));
  EXPECT_THAT(error_with("rope_theta", "1e6"), HasSubstr("\"rope_theta\" is \"1e6\"; expected a number"));
}

// A4
TEST_F(ConfigJson, ReadsYarnAndItsExplicitAttentionFactor) {
  const nlohmann::json yarn = {{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32768}, {"attention_factor", 1.0}};
  const RopeArgs rope = read_with("rope_scaling", yarn).rope;
  EXPECT_EQ(rope.type, "yarn");
  EXPECT_EQ(rope.factor, 4);
  EXPECT_EQ(rope.original_max_position_embeddings, 32768);
  EXPECT_EQ(rope_frequencies(rope, 128).attention_scaling, 1.0);
}

TEST_F(ConfigJson, NamesAMisspeltKeyOfTheRopeBlock) {
  const nlohmann::json yarn = {{"rope_type", "yarn"}, {"factor", 4.0}, {"attn_factor", 1.0}, {"original_max_position_embeddings", 32768}};
  EXPECT_THAT(error_with("rope_scaling", yarn), AllOf(HasSubstr("\"attn_factor\""), HasSubstr("attention_factor,")));
}

TEST_F(ConfigJson, NamesARopeKeyWithoutEffect) {
  nlohmann::json json = tiny();
  json["rope_parameters"] = {{"rope_type", "linear"}, {"factor", 2.0}, {"beta_fast", 8}};
  EXPECT_THAT(warnings_of(json), AllOf(HasSubstr("beta_fast"), HasSubstr("linear")));
}

TEST_F(ConfigJson, TakesTheOriginalLengthFromTheModelIfTheBlockHasNone) {
  EXPECT_EQ(read_with("rope_scaling", {{"rope_type", "yarn"}, {"factor", 4.0}}).rope.original_max_position_embeddings, 4096);
  const nlohmann::json without_factor = {{"rope_type", "yarn"}, {"factor", nullptr}, {"original_max_position_embeddings", 1024}};
  EXPECT_EQ(read_with("rope_scaling", without_factor).rope.factor, 4);
}

TEST_F(ConfigJson, RefusesRopeSettingsThatItWouldComputeWrongly) {
  EXPECT_THAT(error_with("rope_scaling", {{"rope_type", "dynamic"}, {"factor", 2.0}}), AllOf(HasSubstr("dynamic"), HasSubstr("yarn")));
  EXPECT_THAT(error_with("rope_scaling", {{"rope_type", "linear"}}), HasSubstr("factor"));
  EXPECT_THAT(error_with("rope_scaling", {{"rope_type", "linear"}, {"factor", 0.5}}), HasSubstr("0.5"));
  EXPECT_THAT(error_with("rope_scaling", {{"rope_type", "linear"}, {"type", "yarn"}, {"factor", 2.0}}),
              AllOf(HasSubstr("linear"), HasSubstr("yarn")));
  EXPECT_THAT(error_with("rope_scaling", {{"rope_type", "llama3"}, {"factor", 8.0}, {"low_freq_factor", 4}, {"high_freq_factor", 1}}),
              HasSubstr("high_freq_factor"));
  EXPECT_THAT(error_with("rope_scaling", "yarn"), HasSubstr("expected an object"));
  EXPECT_THAT(error_with("partial_rotary_factor", 0.5), HasSubstr("partial_rotary_factor"));
  EXPECT_THAT(error_with("rope_parameters", {{"rope_type", "default"}, {"partial_rotary_factor", 0.5}}),
              HasSubstr("partial_rotary_factor"));
  nlohmann::json both = tiny();
  both["rope_parameters"] = {{"rope_type", "linear"}, {"factor", 2.0}};
  both["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 3.0}};
  EXPECT_THAT(error_of([&] { read(both); }), AllOf(HasSubstr("rope_parameters"), HasSubstr("rope_scaling")));
}

// A11
TEST_F(ConfigJson, ReadsEndTokensAsNumberListOrNull) {
  EXPECT_THAT(read_with("eos_token_id", 257).eos_token_ids, ElementsAre(257));
  EXPECT_THAT(read_with("eos_token_id", {258, 257}).eos_token_ids, ElementsAre(258, 257));
  EXPECT_THAT(read_with("eos_token_id", nullptr).eos_token_ids, ElementsAre());
  EXPECT_THAT(read_without("eos_token_id").eos_token_ids, ElementsAre());
  for (const nlohmann::json& bad : std::vector<nlohmann::json>{"257", 1.5, -1, {"a"}, {1, -1}, true}) {
    EXPECT_THAT(error_with("eos_token_id", bad), HasSubstr("eos_token_id")) << bad;
  }
}

TEST_F(ConfigJson, GivesLlamaItsClassDefaultTokens) {
  nlohmann::json json = tiny_llama();
  json.erase("eos_token_id");
  EXPECT_THAT(read(json).eos_token_ids, ElementsAre(2));
  EXPECT_EQ(read(json).bos_token_id, 1);
  json["bos_token_id"] = nullptr;
  EXPECT_EQ(read(json).bos_token_id, std::nullopt);
}

// A12
TEST_F(ConfigJson, RefusesOtherModelTypes) {
  for (const char* type : {"qwen2", "", "qwen3_next", "qwen3_vl", "Qwen3"}) {
    EXPECT_THAT(error_with("model_type", type), AllOf(HasSubstr(file_.string()), HasSubstr("supported: qwen3, qwen3_moe, llama"))) << type;
  }
  EXPECT_THAT(error_of([&] { read_without("model_type"); }), HasSubstr("supported: qwen3, qwen3_moe, llama"));
}

TEST_F(ConfigJson, RefusesWhatItDoesNotCompute) {
  EXPECT_THAT(error_with("attention_bias", true), HasSubstr("attention_bias"));
  EXPECT_THAT(error_with("mlp_bias", true), HasSubstr("mlp_bias"));
  EXPECT_THAT(error_with("hidden_act", "gelu"), AllOf(HasSubstr("gelu"), HasSubstr("silu")));
  EXPECT_THAT(error_with("quantization_config", {{"bits", 4}}), HasSubstr("quantization_config"));
  EXPECT_THAT(error_with("layer_types", {"full_attention", "sliding_attention"}), HasSubstr("full_attention"));
  EXPECT_THAT(error_with("layer_types", {"full_attention"}), HasSubstr("2 layers"));
  nlohmann::json sliding = tiny();
  sliding["use_sliding_window"] = true;
  sliding["sliding_window"] = 1024;
  sliding["max_window_layers"] = 1;
  EXPECT_THAT(error_of([&] { read(sliding); }), AllOf(HasSubstr("1024"), HasSubstr("from layer 1 on")));
}

TEST_F(ConfigJson, AcceptsASlidingWindowThatIsNotInUse) {
  nlohmann::json json = tiny();
  json["sliding_window"] = 4096;  // published Qwen3 files name one and switch it off
  json["use_sliding_window"] = false;
  json["max_window_layers"] = 1;
  EXPECT_NO_THROW(read(json));
  json["use_sliding_window"] = true;
  json["max_window_layers"] = 2;  // slides from layer 2 on, of two
  EXPECT_NO_THROW(read(json));
}

TEST_F(ConfigJson, WarnsOfKeysThatItIgnores) {
  nlohmann::json json = tiny();
  json["attention_dropout"] = 0.1;
  json["pretraining_tp"] = 2;
  json["logit_scale"] = 3;
  EXPECT_THAT(warnings_of(json), AllOf(HasSubstr("attention_dropout is 0.1"), HasSubstr("pretraining_tp is 2"), HasSubstr("logit_scale")));
}

TEST_F(ConfigJson, RefusesWrongTypesAndAbsurdSizes) {
  for (const nlohmann::json& bad : std::vector<nlohmann::json>{"64", 64.0, true, nullptr, -64, 0, {64}, 1e300, 18446744073709551615u}) {
    EXPECT_THAT(error_with("hidden_size", bad), AllOf(HasSubstr(file_.string()), HasSubstr("\"hidden_size\" is"), HasSubstr("expected")))
        << bad;
  }
  EXPECT_THAT(error_with("num_hidden_layers", int64_t{1} << 40), HasSubstr("num_hidden_layers"));
  EXPECT_THAT(error_with("tie_word_embeddings", 1), HasSubstr("true or false"));
  EXPECT_THAT(error_with("head_dim", 33), HasSubstr("even"));
  EXPECT_THAT(error_with("num_key_value_heads", 3), HasSubstr("multiple"));
  nlohmann::json huge = tiny();
  huge["hidden_size"] = 1 << 20;
  huge["intermediate_size"] = 1 << 24;
  EXPECT_THAT(error_of([&] { read(huge); }), HasSubstr("parameters"));
}

TEST_F(ConfigJson, RefusesHostileText) {
  EXPECT_THAT(error_of_text(""), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_of_text("[1]"), HasSubstr("expected an object"));
  EXPECT_THAT(error_of_text(std::string(100000, '[')), HasSubstr("nested deeper"));
  EXPECT_THAT(error_of_text(R"({"model_type": "qwen3", "model_type": "llama"})"), HasSubstr("given twice"));
  EXPECT_THAT(error_of_text(R"({"model_type": {"a": 1}})"), HasSubstr("expected a string"));
  EXPECT_THAT(error_of_text("{\"model_type\": \"\xff\"}"), HasSubstr("not valid JSON"));
}

TEST_F(ConfigJson, KeepsTheSourceAndChangesWhatItMust) {
  nlohmann::json source = tiny();
  source["architectures"] = {"Qwen3ForCausalLM"};
  source["my_note"] = "kept";
  source.erase("tie_word_embeddings");
  ModelArgs args = read(source);
  const nlohmann::json same = nlohmann::json::parse(write_config_json(args, file_, "bfloat16"));
  nlohmann::json expected = source;
  expected["tie_word_embeddings"] = false;
  EXPECT_EQ(same, expected);

  args.eos_token_ids = {258, 257};
  args.num_hidden_layers = 3;
  const nlohmann::json changed = nlohmann::json::parse(write_config_json(args, file_, "float32"));
  EXPECT_EQ(changed["eos_token_id"], nlohmann::json({258, 257}));
  EXPECT_EQ(changed["num_hidden_layers"], 3);
  EXPECT_EQ(changed["torch_dtype"], "float32");
  EXPECT_EQ(changed["my_note"], "kept");
}

TEST_F(ConfigJson, ReadsBackWhatItWrites) {
  for (const bool with_source : {true, false}) {
    ModelArgs args = read(tiny_llama());
    args.rope.type = "yarn";
    args.rope.factor = 2;
    args.rope.original_max_position_embeddings = 2048;
    args.rope.attention_factor = 1.25;
    args.hidden_size = 32;  // head_dim stays 16, though 32 / 4 is 8
    args.bos_token_id = std::nullopt;
    const std::string text = write_config_json(args, with_source ? file_ : folder_ / "none.json", "float16");
    const ModelArgs back = read_text(text);
    EXPECT_EQ(back.rope, args.rope);
    EXPECT_EQ(back.hidden_size, 32);
    EXPECT_EQ(back.head_dim, 16);
    EXPECT_EQ(back.bos_token_id, std::nullopt);
    EXPECT_EQ(back.eos_token_ids, args.eos_token_ids);
    EXPECT_EQ(back.torch_dtype, "float16");
    EXPECT_FALSE(back.qk_norm);
  }
}

}  // namespace
}  // namespace trine
