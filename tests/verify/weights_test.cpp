// What `trine verify weights` says of good, broken and never-trained weights.
#include "verify/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "base/hashing.h"
#include "checkpoint/export_hf.h"
#include "checkpoint/saver.h"
#include "model/model_args.h"
#include "tests/checkpoint/test_files.h"
#include "verify/tensor_stats.h"

namespace trine {
namespace {

using test::TemporaryPlace;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace fs = std::filesystem;

using Tensors = std::vector<std::pair<std::string, at::Tensor>>;

ModelArgs small_args(bool tied) {
  ModelArgs args = flavor_args("tiny");
  args.tie_word_embeddings = tied;
  return args;
}

struct Weights : testing::Test {
  Weights() { use(small_args(false)); }

  // Matrices as an initialiser draws them, norms at 1.
  void use(const ModelArgs& with) {
    args = with;
    tensors.clear();
    const ModuleSpec spec = build_spec(args);
    for (const NamedParameter& parameter : named_parameters(spec)) {
      const bool is_norm = parameter.spec->shape.size() == 1;
      tensors.emplace_back(parameter.name, is_norm ? at::ones(parameter.spec->shape) : at::randn(parameter.spec->shape) * 0.02);
    }
  }
  // Heavier tails and a width of its own for every matrix, and norms that have moved: as training leaves them.
  void train() {
    for (auto& [name, value] : tensors)
      value = value.dim() == 1 ? value + at::randn_like(value) * 0.1 : value + at::pow(value * 40, 3) * 0.02;
  }
  at::Tensor& tensor(const std::string& name) {
    for (auto& [key, value] : tensors) {
      if (key == name) return value;
    }
    throw std::logic_error(name);
  }
  WeightReport check() {
    fs::remove_all(folder);
    ExportOptions options;
    options.dtype = StoredDtype::kF32;
    options.config_json = write_config_json(args, "", "float32");
    export_hf(folder, TensorWeights(tensors), options);
    return check_weights(folder);
  }
  static std::vector<std::string> failed(const WeightReport& report) {
    std::vector<std::string> names;
    for (const WeightCheck& check : report.checks) {
      if (!check.passed) names.push_back(check.name + ": " + check.detail);
    }
    return names;
  }

  TemporaryPlace place;
  fs::path folder = place / "model";
  ModelArgs args;
  Tensors tensors;
};

TEST_F(Weights, TrainedWeightsPassEveryCheck) {
  train();
  const WeightReport report = check();
  EXPECT_THAT(failed(report), IsEmpty());
  EXPECT_TRUE(report.passed());
  EXPECT_EQ(report.values, count(args).parameters);
  EXPECT_EQ(report.dtypes.at("F32"), report.tensors);
}

TEST_F(Weights, ARandomStartIsSeen) {
  EXPECT_THAT(failed(check()), ElementsAre(AllOf(HasSubstr("trained"), HasSubstr("a random start"))));
}

TEST_F(Weights, AShortTrainingFromScratchPassesWithANote) {
  for (auto& [name, value] : tensors) {
    if (value.dim() == 1) value = value + at::randn_like(value) * 0.01;
  }
  const WeightReport report = check();
  EXPECT_TRUE(report.passed());
  EXPECT_THAT(report.notes, testing::Contains(HasSubstr("only begun")));
}

TEST_F(Weights, ARunThatHasMovedMostMatricesALittlePassesWithANote) {
  for (auto& [name, value] : tensors) {
    if (value.dim() == 1 || name != "lm_head.weight") value = value * 1.1;
  }
  const WeightReport report = check();
  EXPECT_TRUE(report.passed());
  EXPECT_THAT(report.notes, testing::Contains(HasSubstr("only begun")));
}

TEST_F(Weights, AHeadThatWasNeverLoadedIsNamed) {
  train();
  at::Tensor& head = tensor("lm_head.weight");
  head = at::randn(head.sizes()) * 0.02;
  EXPECT_THAT(failed(check()), ElementsAre(AllOf(HasSubstr("trained"), HasSubstr("lm_head.weight"))));
}

TEST_F(Weights, ConstantMatricesAreNamed) {
  train();
  tensor("model.layers.1.mlp.up_proj.weight").zero_();
  EXPECT_THAT(failed(check()), ElementsAre(AllOf(HasSubstr("one value everywhere"), HasSubstr("model.layers.1.mlp.up_proj.weight"))));
}

TEST_F(Weights, ValuesThatAreNotFiniteAreCounted) {
  train();
  at::Tensor flat = tensor("model.layers.0.self_attn.k_proj.weight").view({-1});
  flat[3] = std::numeric_limits<float>::quiet_NaN();
  flat[5] = -std::numeric_limits<float>::infinity();
  EXPECT_THAT(failed(check()), ElementsAre(AllOf(HasSubstr("finite"), HasSubstr("model.layers.0.self_attn.k_proj.weight (2 of"))));
}

TEST_F(Weights, MissingKeysOtherShapesAndDamageAreFailedChecks) {
  train();
  const std::string name = "model.layers.0.mlp.up_proj.weight";
  tensor(name) = tensor(name).t().contiguous();
  EXPECT_THAT(failed(check()), ElementsAre(AllOf(HasSubstr("keys and shapes"), HasSubstr("1 have another shape"), HasSubstr(name))));
  std::erase_if(tensors, [&](const auto& one) { return one.first == name; });
  EXPECT_THAT(failed(check()), ElementsAre(AllOf(HasSubstr("keys and shapes"), HasSubstr("1 are missing"), HasSubstr(name))));
  fs::resize_file(folder / "model.safetensors", fs::file_size(folder / "model.safetensors") - 1);
  EXPECT_THAT(failed(check_weights(folder)), ElementsAre(AllOf(HasSubstr("files"), HasSubstr("cut short"))));
}

TEST_F(Weights, ATiedHeadInTheFilesMustEqualTheEmbedding) {  // B11
  use(small_args(/*tied=*/true));
  train();
  EXPECT_TRUE(check().passed());
  const at::Tensor& embedding = tensor("model.embed_tokens.weight");
  const auto add_head = [&](const at::Tensor& value) {  // an exporter that writes the head twice
    TensorWeights head({{"lm_head.weight", value}});
    SafetensorsWriter writer(folder / "head.safetensors", {{"lm_head.weight", StoredDtype::kF32, value.sizes().vec()}});
    head.visit(head.tensors()[0], 0, value.numel(), [&](int64_t, std::span<const std::byte> bytes) { writer.write(bytes); });
    writer.finish();
    return check_weights(folder);
  };
  EXPECT_TRUE(add_head(embedding).passed());
  EXPECT_THAT(failed(add_head(embedding + 1)), testing::Contains(AllOf(HasSubstr("tied head"), HasSubstr("other values"))));
}

TEST_F(Weights, HubCacheFilesMustHaveTheHashOfTheirName) {
  train();
  check();
  const fs::path file = folder / "model.safetensors";
  const std::string hash = sha256_hex(MappedFile(file).bytes());
  fs::create_directory(place / "blobs");
  fs::rename(file, place / "blobs/" += hash);
  fs::create_symlink(place / "blobs/" += hash, file);
  EXPECT_THAT(check_weights(folder).checks[0].detail, HasSubstr("SHA-256 of 1 equal to the hub's"));
  const std::string wrong(64, 'a');
  fs::rename(place / "blobs/" += hash, place / "blobs/" += wrong);
  fs::remove(file);
  fs::create_symlink(place / "blobs/" += wrong, file);
  EXPECT_THAT(failed(check_weights(folder)), ElementsAre(HasSubstr("SHA-256")));
}

TEST_F(Weights, CheckpointsAreCheckedLikeFolders) {
  train();
  CheckpointSaver saver({place / "run/checkpoint", 0, {}, false});
  std::vector<CheckpointParameter> parameters;
  std::vector<TensorSlice> slices;
  for (const auto& [name, value] : tensors) {
    parameters.push_back({name, value.sizes().vec()});
    slices.push_back({whole_slice(name, kMaster, parameters.back().shape), value});
  }
  saver.save(7, parameters, slices, {}, {{"config.json", write_config_json(args, "", "float32")}});
  EXPECT_THAT(failed(check_weights(place / "run")), IsEmpty());
}

TEST_F(Weights, ComparingRanksTensorsByDrift) {
  Tensors changed;
  for (const auto& [name, value] : tensors) changed.emplace_back(name, value.clone());
  changed[0].second.view({-1})[5] += 1;
  changed[1].second.mul_(1.5);
  const WeightComparison comparison = compare_weights(TensorWeights(tensors), TensorWeights(changed));
  EXPECT_TRUE(comparison.same_tensors());
  EXPECT_EQ(comparison.equal, static_cast<int64_t>(tensors.size()) - 2);
  EXPECT_EQ(comparison.drifts[0].name, tensors[1].first);
  EXPECT_NEAR(comparison.drifts[0].relative, 0.5, 1e-6);
  EXPECT_EQ(comparison.drifts[1].name, tensors[0].first);
  EXPECT_EQ(comparison.drifts[1].different, 1);
  EXPECT_NEAR(comparison.drifts[1].relative, 1 / tensors[0].second.norm().item<double>(), 1e-6);
  EXPECT_NEAR(comparison.drifts[1].largest, 1, 1e-6);
}

TEST_F(Weights, ComparingNamesTensorsThatOnlyOneSideHas) {
  Tensors fewer(tensors.begin() + 1, tensors.end());
  fewer[0].second = fewer[0].second.new_zeros({3});
  const WeightComparison comparison = compare_weights(TensorWeights(tensors), TensorWeights(fewer));
  EXPECT_FALSE(comparison.same_tensors());
  EXPECT_THAT(comparison.only_in_a, ElementsAre(tensors[0].first));
  EXPECT_THAT(comparison.other_shape, ElementsAre(tensors[1].first));
}

TEST(CompareWeights, AStoredHeadIsComparedWithATiedEmbedding) {
  const at::Tensor embedding = at::randn({4, 2});
  const TensorWeights tied({{"model.embed_tokens.weight", embedding}});
  const TensorWeights same({{"model.embed_tokens.weight", embedding}, {"lm_head.weight", embedding}});
  const TensorWeights other({{"model.embed_tokens.weight", embedding}, {"lm_head.weight", embedding * 2}});
  for (const auto& [a, b] : {std::pair(&tied, &same), std::pair(&same, &tied)}) {
    EXPECT_TRUE(compare_weights(*a, *b).same_tensors());
    EXPECT_EQ(compare_weights(*a, *b).equal, 2);
  }
  EXPECT_EQ(compare_weights(tied, other).drifts[0].name, "lm_head.weight");
}

TEST(TensorStats, AgreeWithTorchInDoubles) {
  const at::Tensor value = at::randn({700, 3001}) * 0.3 + 0.1;  // more than one chunk
  const TensorStats stats = tensor_stats(TensorWeights({{"w", value}}))[0];
  const at::Tensor exact = value.to(at::kDouble);
  const at::Tensor centred = exact - exact.mean();
  const double variance = centred.square().mean().item<double>();
  EXPECT_EQ(stats.count, value.numel());
  EXPECT_NEAR(stats.mean, exact.mean().item<double>(), 1e-12);
  EXPECT_NEAR(stats.std, std::sqrt(variance), 1e-12);
  EXPECT_NEAR(stats.excess_kurtosis, centred.pow(4).mean().item<double>() / (variance * variance) - 3, 1e-8);
  EXPECT_EQ(stats.least, exact.min().item<double>());
  EXPECT_EQ(stats.most, exact.max().item<double>());
}

TEST(TensorStats, TellInitialisersFromTraining) {
  const auto origin = [](const at::Tensor& value) {
    return origin_of(tensor_stats(TensorWeights({{"w", value}}))[0], value.sizes().vec(), 0.02, 12);
  };
  const at::Tensor normal = at::randn({256, 128});
  EXPECT_EQ(origin(normal * 0.02), Origin::kDrawn);
  EXPECT_EQ(origin((normal * 0.02).to(at::kBFloat16)), Origin::kDrawn);
  EXPECT_EQ(origin(normal * (0.02 / std::sqrt(24.0))), Origin::kDrawn);                       // depth-scaled
  EXPECT_EQ(origin((at::rand({256, 128}) * 2 - 1) / std::sqrt(128.0)), Origin::kDrawn);       // a fresh torch.nn.Linear
  EXPECT_EQ(origin(normal * 0.021), Origin::kNearStart);                                      // no initialiser's width, but close
  EXPECT_EQ(origin(normal * 0.02 + 0.001), Origin::kNearStart);                               // a mean
  EXPECT_EQ(origin(normal * 0.035), Origin::kTrained);
  EXPECT_EQ(origin(normal * 0.015 + at::pow(normal, 3) * 0.002), Origin::kTrained);           // heavy tails
  EXPECT_EQ(origin(at::randn({8, 8}) * 0.02), Origin::kUnknown);
  EXPECT_EQ(origin(at::ones({65536})), Origin::kUnknown);
}

}  // namespace
}  // namespace trine
