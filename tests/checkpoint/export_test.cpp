// cases.md B13, I7, I9: what an export holds, and what it leaves alone.
#include "checkpoint/export_hf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/load_weights.h"
#include "model/model_args.h"
#include "tests/checkpoint/test_files.h"

namespace trine {
namespace {

using test::TemporaryPlace;
using test::user_error;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace fs = std::filesystem;

// cases.md's tiny dense model.
ModelArgs tiny(bool tied) {
  ModelArgs args;
  args.vocab_size = 320;
  args.hidden_size = 64;
  args.intermediate_size = 128;
  args.num_hidden_layers = 2;
  args.num_attention_heads = 4;
  args.num_key_value_heads = 2;
  args.head_dim = 32;
  args.max_position_embeddings = 512;
  args.rope.theta = 1e6;
  args.tie_word_embeddings = tied;
  return args;
}

std::vector<std::pair<std::string, at::Tensor>> random_parameters(const ModelArgs& args, at::ScalarType type) {
  std::vector<std::pair<std::string, at::Tensor>> parameters;
  const ModuleSpec spec = build_spec(args);
  for (const NamedParameter& parameter : named_parameters(spec))
    parameters.emplace_back(parameter.name, at::randn(parameter.spec->shape).to(type));
  return parameters;
}

struct Export : testing::Test {
  ExportReport run(bool tied = false, StoredDtype dtype = StoredDtype::kBF16, uint64_t shard_bytes = 5'000'000'000) {
    options.dtype = dtype;
    options.shard_bytes = shard_bytes;
    options.config_json = fmt::format(R"({{"tie_word_embeddings": {}, "dtype": "{}"}})", tied, config_dtype_name(dtype));
    parameters = random_parameters(tiny(tied), at::kFloat);
    return export_hf(folder, TensorWeights(parameters), options);
  }
  // Every tensor of the export against the parameter, converted by torch.
  void expect_equal(at::ScalarType type) {
    const HfWeights written(folder);
    ASSERT_EQ(written.tensors().size(), parameters.size());
    for (const auto& [name, value] : parameters) {
      const StoredTensor* found = written.find(name);
      ASSERT_NE(found, nullptr) << name;
      EXPECT_EQ(to_scalar_type(found->dtype), type);
      at::Tensor back = at::empty(value.sizes(), type);
      load_tensor(written, *found, back);
      EXPECT_TRUE(at::equal(back, value.to(type))) << name;
    }
  }

  TemporaryPlace place;
  fs::path folder = place / "export";
  ExportOptions options;
  std::vector<std::pair<std::string, at::Tensor>> parameters;
};

TEST_F(Export, OneFileHoldsEveryTensorInTheTypeAskedFor) {  // I7
  const ExportReport report = run();
  EXPECT_EQ(report.values, 139'712);
  EXPECT_EQ(report.bytes, 2 * 139'712u);
  EXPECT_THAT(report.files, ElementsAre("model.safetensors", "config.json"));
  expect_equal(at::kBFloat16);
  EXPECT_EQ(parameters[0].second.scalar_type(), at::kFloat);
  EXPECT_EQ(std::distance(fs::directory_iterator(place.path()), {}), 1);  // nothing temporary is left
}

TEST_F(Export, Float32AndFloat16) {  // I7
  EXPECT_EQ(run(false, StoredDtype::kF32).bytes, 4 * 139'712u);
  expect_equal(at::kFloat);
  run(false, StoredDtype::kF16);
  expect_equal(at::kHalf);
}

TEST_F(Export, TiedModelsHaveNoHead) {  // B13
  const ExportReport report = run(/*tied=*/true);
  EXPECT_EQ(report.bytes, 238'464u);
  EXPECT_EQ(HfWeights(folder).find("lm_head.weight"), nullptr);
}

TEST_F(Export, ShardsKeepToTheLimitAndTheIndexNamesEveryKey) {
  const ExportReport report = run(false, StoredDtype::kBF16, 60'000);
  const HfWeights written(folder);
  EXPECT_TRUE(written.has_index());
  EXPECT_THAT(written.notes(), IsEmpty());
  EXPECT_GT(written.files().size(), 3u);
  for (const auto& file : written.files()) {
    EXPECT_TRUE(file->file_bytes() < 62'000 || file->entries().size() == 1) << file->path();
    EXPECT_EQ(file->metadata().at("format"), "pt");  // B7
  }
  const Json index = read_json_file(folder / "model.safetensors.index.json");
  EXPECT_EQ(index["metadata"]["total_size"], 2 * 139'712);
  EXPECT_EQ(index["weight_map"].size(), parameters.size());
  EXPECT_THAT(report.files, Contains("model.safetensors.index.json"));
  expect_equal(at::kBFloat16);
}

TEST_F(Export, SideFilesAreCopiedByteForByteAndMissingOnesSaid) {  // I9
  const fs::path source = place / "source";
  fs::create_directory(source);
  const std::string odd("{\"b\":1,  \"a\":\xC3\xA9}\r\n\0tail", 24);
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "merges.txt", "LICENSE"}) {
    test::write_text(source / name, odd + name);
  }
  for (const char* name :
       {"config.json", "README.md", "model.safetensors", "model.safetensors.index.json", ".gitattributes", "pytorch_model.bin"}) {
    test::write_text(source / name, "not for the export");
  }
  fs::create_directory(source / "original");
  options.source_folder = source;
  const ExportReport report = run();
  EXPECT_THAT(report.side_files, ElementsAre("LICENSE", "chat_template.jinja", "merges.txt", "tokenizer.json", "tokenizer_config.json"));
  for (const std::string& name : report.side_files) EXPECT_EQ(read_file(folder / name), odd + name);
  EXPECT_THAT(report.notes, ElementsAre(HasSubstr("no generation_config.json")));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 7);
}

TEST_F(Export, ReplacedSideFilesComeFromTheCaller) {  // A11: end tokens that chat tuning changed
  const fs::path source = place / "source";
  fs::create_directory(source);
  test::write_text(source / "generation_config.json", R"({"eos_token_id": 1})");
  options.source_folder = source;
  options.replaced_files["generation_config.json"] = R"({"eos_token_id": [1, 2]})";
  run();
  EXPECT_EQ(read_file(folder / "generation_config.json"), R"({"eos_token_id": [1, 2]})");
}

TEST_F(Export, AnEarlierExportIsReplacedWholeAndAnythingElseRefused) {
  run(false, StoredDtype::kBF16, 60'000);
  run();
  EXPECT_EQ(HfWeights(folder).files().size(), 1u);
  EXPECT_FALSE(fs::exists(folder / "model.safetensors.index.json"));

  fs::remove_all(folder);
  fs::create_directory(folder);
  run();  // an empty folder is nobody's
  fs::remove_all(folder);
  fs::create_directory(folder);
  test::write_text(folder / "thesis.tex", "x");
  EXPECT_THAT(user_error([&] { run(); }), HasSubstr("no earlier export"));
  test::write_floats(folder / "model.safetensors", {{"w", {2}}});  // somebody else's model
  EXPECT_THAT(user_error([&] { run(); }), HasSubstr("no earlier export"));
  EXPECT_TRUE(fs::exists(folder / "thesis.tex"));
}

TEST_F(Export, TheSourceFolderIsNeverReplaced) {
  run();
  options.source_folder = folder;
  EXPECT_THAT(user_error([&] { run(); }), HasSubstr("would replace the folder"));
}

TEST_F(Export, ValuesBeyondFloat16AreRefusedByName) {
  parameters = {{"w", at::full({5}, 70'000.0)}};
  options.dtype = StoredDtype::kF16;
  options.config_json = R"({"tie_word_embeddings": true, "dtype": "float16"})";
  EXPECT_THAT(user_error([&] { export_hf(folder, TensorWeights(parameters), options); }),
              testing::AllOf(HasSubstr("w "), HasSubstr("65504")));
  EXPECT_FALSE(fs::exists(folder));
  EXPECT_TRUE(fs::is_empty(place.path()));
}

TEST_F(Export, AConfigThatContradictsTheTensorsIsOurFault) {
  parameters = {{"w", at::zeros({5})}};
  for (const char* config :
       {R"({"dtype": "bfloat16"})", R"({"tie_word_embeddings": false})", R"({"tie_word_embeddings": true, "dtype": "float32"})"}) {
    options.config_json = config;
    EXPECT_THROW(export_hf(folder, TensorWeights(parameters), options), std::logic_error) << config;
  }
}

TEST(ExportDtype, SourceMeansTheWeightsThenTheConfigThenTheRun) {  // I7
  const TemporaryPlace place;
  EXPECT_EQ(resolve_export_dtype("source", place.path(), StoredDtype::kF32), StoredDtype::kF32);
  EXPECT_EQ(resolve_export_dtype("source", "", StoredDtype::kF32), StoredDtype::kF32);
  test::write_text(place / "config.json", R"({"torch_dtype": "bfloat16"})");
  EXPECT_EQ(resolve_export_dtype("source", place.path(), StoredDtype::kF32), StoredDtype::kBF16);
  SafetensorsWriter writer(place / "model.safetensors", {{"norm", StoredDtype::kF32, {1}}, {"w", StoredDtype::kF16, {4}}});
  const std::byte data[12] = {};
  writer.write(data);
  writer.finish();
  EXPECT_EQ(resolve_export_dtype("source", place.path(), StoredDtype::kF32), StoredDtype::kF16);
  EXPECT_EQ(resolve_export_dtype("float32", place.path(), StoredDtype::kBF16), StoredDtype::kF32);
  EXPECT_THAT(user_error([&] { resolve_export_dtype("fp8", place.path(), StoredDtype::kF32); }), HasSubstr("fp8"));
}

}  // namespace
}  // namespace trine
