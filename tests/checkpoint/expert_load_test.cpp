// cases.md B14: the parameters of a small mixture, loaded from a folder of each layout.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/export_hf.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/load_weights.h"
#include "model/model_args.h"
#include "tests/checkpoint/test_files.h"

namespace trine {
namespace {

using test::TemporaryPlace;
using test::user_error;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

using Tensors = std::map<std::string, at::Tensor>;

// Torch's own stacking, concatenation and transposition make the fused tensors here.
void fuse(Tensors& tensors, int64_t layer, int64_t num_experts, bool transposed) {
  const std::string experts = fmt::format("model.layers.{}.mlp.experts", layer);
  std::vector<at::Tensor> gate_up, down;
  const auto take = [&](int64_t expert, const char* projection) {
    return tensors.extract(fmt::format("{}.{}.{}.weight", experts, expert, projection)).mapped();
  };
  for (int64_t expert = 0; expert < num_experts; ++expert) {
    const at::Tensor gate = take(expert, "gate_proj"), up = take(expert, "up_proj");
    gate_up.push_back(at::cat({gate, up}));
    down.push_back(take(expert, "down_proj"));
  }
  const auto stacked = [&](const std::vector<at::Tensor>& all) { return transposed ? at::stack(all).transpose(1, 2) : at::stack(all); };
  tensors[experts + ".gate_up_proj"] = stacked(gate_up);
  tensors[experts + ".down_proj"] = stacked(down);
}

struct ExpertLoad : testing::Test {
  ExpertLoad() {
    args = flavor_args("tiny_moe");
    args.moe_intermediate_size = 24;  // with the flavor's 32, gate_up_proj is square and its layout cannot be seen
    at::manual_seed(7);
    const ModuleSpec spec = build_spec(args);
    for (const NamedParameter& parameter : named_parameters(spec)) {
      published[parameter.name] = at::randn(parameter.spec->shape);
      wanted.push_back({parameter.name, parameter.spec->shape, at::full(parameter.spec->shape, -1.0)});
    }
  }
  void write(const Tensors& tensors, StoredDtype dtype = StoredDtype::kF32) {
    std::vector<TensorDeclaration> declarations;
    for (const auto& [name, tensor] : tensors) declarations.push_back({name, dtype, tensor.sizes().vec()});
    SafetensorsWriter writer(place / "model.safetensors", declarations);
    for (const auto& [name, tensor] : tensors) {
      const at::Tensor values = tensor.to(to_scalar_type(dtype)).contiguous();
      writer.write({static_cast<const std::byte*>(values.data_ptr()), values.nbytes()});
    }
    writer.finish();
  }
  LoadReport load(const Tensors& tensors, StoredDtype dtype = StoredDtype::kF32) {
    write(tensors, dtype);
    return load_weights(*open_weights(place.path()), wanted, {});
  }
  std::string refusal(const Tensors& tensors) {
    return user_error([&] { load(tensors); });
  }

  TemporaryPlace place;
  ModelArgs args;
  Tensors published;
  std::vector<WantedTensor> wanted;
};

TEST_F(ExpertLoad, EveryLayoutGivesTheSameParameters) {
  for (const StoredDtype dtype : {StoredDtype::kF32, StoredDtype::kBF16}) {
    for (const auto& [first, second] : {std::pair("separate", "separate"), {"plain", "plain"}, {"transposed", "transposed"},
                                        {"plain", "separate"}, {"transposed", "plain"}}) {
      Tensors tensors = published;
      for (const int64_t layer : {0, 1}) {
        const std::string layout = layer == 0 ? first : second;
        if (layout != "separate") fuse(tensors, layer, args.num_experts, layout == "transposed");
      }
      const LoadReport report = load(tensors, dtype);
      EXPECT_EQ(report.loaded, static_cast<int64_t>(published.size()));
      for (WantedTensor& one : wanted) {
        ASSERT_TRUE(at::equal(one.destination, published[one.name].to(to_scalar_type(dtype)).to(at::kFloat)))
            << one.name << " of " << first << " and " << second;
        one.destination.fill_(-1);
      }
    }
  }
}

TEST_F(ExpertLoad, RangesAreFilledFromTheMiddleOfAMatrix) {  // what a rank of a sharded run asks for
  for (const bool transposed : {false, true}) {
    Tensors tensors = published;
    fuse(tensors, 1, args.num_experts, transposed);
    write(tensors);
    const auto source = open_weights(place.path());
    for (const char* projection : {"gate_proj", "up_proj", "down_proj"}) {
      const std::string name = fmt::format("model.layers.1.mlp.experts.5.{}.weight", projection);
      const at::Tensor part = at::empty({700});
      load_tensor(*source, *source->find(name), part, 333);
      EXPECT_TRUE(at::equal(part, published[name].view({-1}).narrow(0, 333, 700))) << name << (transposed ? " transposed" : "");
    }
  }
}

TEST_F(ExpertLoad, AnExportHasPublishedNamesWhateverTheSourceHad) {
  Tensors tensors = published;
  fuse(tensors, 0, args.num_experts, true);
  fuse(tensors, 1, args.num_experts, false);
  write(tensors);
  ExportOptions options;
  options.dtype = StoredDtype::kF32;
  options.config_json = write_config_json(args, "", "float32");
  export_hf(place / "export", *open_weights(place.path()), options);
  const HfWeights exported(place / "export");
  EXPECT_EQ(exported.tensors().size(), published.size());
  for (const auto& [name, value] : published) {
    ASSERT_TRUE(exported.find(name)) << name;
    const at::Tensor loaded = at::empty_like(value);
    load_tensor(exported, *exported.find(name), loaded);
    EXPECT_TRUE(at::equal(loaded, value)) << name;
  }
}

TEST_F(ExpertLoad, AMissingExpertAndAnExtraOneAreNamed) {
  const std::string down = "model.layers.1.mlp.experts.3.down_proj.weight";
  Tensors renamed = published;
  renamed["model.layers.1.mlp.experts.8.down_proj.weight"] = renamed.extract(down).mapped();
  EXPECT_THAT(refusal(renamed), AllOf(HasSubstr("1 are missing"), HasSubstr("1 are unexpected"), HasSubstr("missing: " + down),
                                      HasSubstr("unexpected: model.layers.1.mlp.experts.8.down_proj.weight")));
}

TEST_F(ExpertLoad, AWholeLayersFaultIsALinePerMatrix) {
  Tensors fewer = published;
  std::erase_if(fewer, [](const auto& one) { return one.first.starts_with("model.layers.0.mlp.experts."); });
  EXPECT_THAT(refusal(fewer), AllOf(HasSubstr("24 are missing"), HasSubstr("model.layers.0.mlp.experts.{0..7}.down_proj.weight"),
                                    HasSubstr("model.layers.0.mlp.experts.{0..7}.gate_proj.weight"), Not(HasSubstr("more"))));
  Tensors wider = published;
  for (auto& [name, tensor] : wider) {
    if (name.find(".layers.1.mlp.experts.") == std::string::npos) continue;
    tensor = name.ends_with("down_proj.weight") ? at::zeros({64, 20}) : at::zeros({20, 64});
  }
  fuse(wider, 1, args.num_experts, false);
  EXPECT_THAT(refusal(wider), AllOf(HasSubstr("24 have another shape"),
                                    HasSubstr("model.layers.1.mlp.experts.{0..7}.gate_proj.weight (file [20, 64], model [24, 64])")));
}

TEST_F(ExpertLoad, AnotherNumberOfExpertsInAFusedFileIsSeen) {
  Tensors fewer = published;
  fuse(fewer, 0, args.num_experts, false);
  const std::string experts = "model.layers.0.mlp.experts";
  for (const char* name : {".gate_up_proj", ".down_proj"}) fewer[experts + name] = fewer[experts + name].narrow(0, 0, 6);
  EXPECT_THAT(refusal(fewer), AllOf(HasSubstr("hold 6 experts"), HasSubstr("model.layers.0.mlp.gate.weight [8, 64]")));
  fewer["model.layers.0.mlp.gate.weight"] = fewer["model.layers.0.mlp.gate.weight"].narrow(0, 0, 6);
  EXPECT_THAT(refusal(fewer), AllOf(HasSubstr("6 are missing"), HasSubstr("model.layers.0.mlp.experts.{6..7}.up_proj.weight")));
}

TEST_F(ExpertLoad, AnotherPatternOfSparseLayersIsNamed) {  // A7
  args.mlp_only_layers = {1};
  wanted.clear();
  const ModuleSpec spec = build_spec(args);
  for (const NamedParameter& parameter : named_parameters(spec)) {
    wanted.push_back({parameter.name, parameter.spec->shape, at::zeros(parameter.spec->shape)});
  }
  EXPECT_THAT(refusal(published),
              AllOf(HasSubstr("model.layers.1.mlp.gate_proj.weight"), HasSubstr("model.layers.1.mlp.experts.{0..7}.gate_proj.weight"),
                    HasSubstr("decoder_sparse_step and mlp_only_layers")));
  published.erase("model.layers.1.mlp.experts.0.gate_proj.weight");  // a file with a hole is no other pattern
  args.mlp_only_layers = {};
  wanted.clear();
  const ModuleSpec sparse = build_spec(args);
  for (const NamedParameter& parameter : named_parameters(sparse)) {
    wanted.push_back({parameter.name, parameter.spec->shape, at::zeros(parameter.spec->shape)});
  }
  EXPECT_THAT(refusal(published), AllOf(HasSubstr("1 are missing"), Not(HasSubstr("mlp_only_layers"))));
}

}  // namespace
}  // namespace trine
