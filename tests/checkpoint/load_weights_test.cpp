// cases.md B11 and the accounting of keys; conversion against torch's own casts.
#include "checkpoint/load_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/hf_folder.h"
#include "tests/checkpoint/test_files.h"

namespace trine {
namespace {

using test::TemporaryPlace;
using test::user_error;
using test::write_floats;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const std::map<std::string, std::string> kTied = {{"lm_head.weight", "model.embed_tokens.weight"}};

// A model of three parameters, and what a file with other tensors does to it.
struct Loading : testing::Test {
  std::vector<WantedTensor> wanted = {{"model.embed_tokens.weight", {4, 2}, at::zeros({4, 2})},
                                      {"model.layers.0.self_attn.q_proj.weight", {2, 2}, at::zeros({2, 2})},
                                      {"model.norm.weight", {2}, at::zeros({2})}};
  std::vector<test::FloatTensor> file = {{"model.embed_tokens.weight", {4, 2}, 0},
                                         {"model.layers.0.self_attn.q_proj.weight", {2, 2}, 10},
                                         {"model.norm.weight", {2}, 20}};
  TemporaryPlace place;

  LoadReport load(const std::map<std::string, std::string>& tied = {}) {
    write_floats(place / "model.safetensors", file);
    return load_weights(HfWeights(place.path()), wanted, tied);
  }
  std::string refusal(const std::map<std::string, std::string>& tied = {}) {
    return user_error([&] { load(tied); });
  }
};

at::Tensor counting(float first, at::IntArrayRef shape) {
  return at::arange(c10::multiply_integers(shape), at::kFloat).add(first).view(shape);
}

TEST_F(Loading, FillsEveryParameterAndCountsBothSides) {
  const LoadReport report = load();
  EXPECT_EQ(report.loaded, 3);
  EXPECT_EQ(report.total, 3);
  EXPECT_THAT(report.source_dtypes, ElementsAre(testing::Pair("F32", 3)));
  EXPECT_THAT(report.notes, IsEmpty());
  EXPECT_TRUE(at::equal(wanted[0].destination, counting(0, {4, 2})));
  EXPECT_TRUE(at::equal(wanted[1].destination, counting(10, {2, 2})));
}

TEST_F(Loading, AMissingKeyIsNamedWithTheNearestUnexpectedOne) {
  file[1].name = "model.layers.0.attn.q_proj.weight";
  const std::string text = refusal();
  EXPECT_THAT(text, AllOf(HasSubstr("of 3 wanted, 1 are missing"), HasSubstr("1 are unexpected"),
                          HasSubstr("model.layers.0.self_attn.q_proj.weight (there is model.layers.0.attn.q_proj.weight)")));
  EXPECT_TRUE(at::equal(wanted[0].destination, at::zeros({4, 2})));  // refused before anything was filled
}

TEST_F(Loading, AnotherShapeIsNamedWithBothShapes) {
  file[1].shape = {2, 3};
  EXPECT_THAT(refusal(), HasSubstr("q_proj.weight (file [2, 3], model [2, 2])"));
}

TEST_F(Loading, LeftoverBiasesAreAnError) {  // A12
  file.push_back({"model.layers.0.self_attn.q_proj.bias", {2}});
  EXPECT_THAT(refusal(), AllOf(HasSubstr("q_proj.bias"), HasSubstr("has no biases")));
}

TEST_F(Loading, ManyFaultsAreCountedAndSomeShown) {
  for (int i = 0; i < 12; ++i) file.push_back({fmt::format("extra.{}", i), {1}});
  EXPECT_THAT(refusal(), AllOf(HasSubstr("12 are unexpected"), HasSubstr("extra.0"), HasSubstr("and 7 more")));
}

TEST_F(Loading, RotaryFrequenciesAreIgnoredWithANote) {
  file.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", {2}});
  file.push_back({"model.layers.1.self_attn.rotary_emb.inv_freq", {2}});
  EXPECT_THAT(load().notes, ElementsAre(AllOf(HasSubstr("2 tensors"), HasSubstr("inv_freq"))));
}

TEST_F(Loading, TiedAndAbsentIsFine) {  // B11
  EXPECT_EQ(load(kTied).total, 3);
}

TEST_F(Loading, TiedAndPresentWithEqualValuesIsNotedAndCountedOnce) {  // B11
  file.push_back({"lm_head.weight", {4, 2}, 0});
  const LoadReport report = load(kTied);
  EXPECT_EQ(report.total, 3);
  EXPECT_EQ(report.loaded, 3);
  EXPECT_THAT(report.notes, ElementsAre(HasSubstr("lm_head.weight is in the file and equals model.embed_tokens.weight")));
}

TEST_F(Loading, TiedAndPresentWithOtherValuesIsAnErrorThatNamesBoth) {  // B11
  file.push_back({"lm_head.weight", {4, 2}, 1});
  EXPECT_THAT(refusal(kTied), AllOf(HasSubstr("lm_head.weight"), HasSubstr("model.embed_tokens.weight"), HasSubstr("other values")));
  file.back().shape = {2, 4};
  EXPECT_THAT(refusal(kTied), HasSubstr("has shape [2, 4] and not [4, 2]"));
}

TEST_F(Loading, UntiedAndAbsentIsAnErrorAndNeverRandom) {  // B11
  wanted.push_back({"lm_head.weight", {4, 2}, at::zeros({4, 2})});
  EXPECT_THAT(refusal(), AllOf(HasSubstr("lm_head.weight"), HasSubstr("\"tie_word_embeddings\": true")));
}

TEST_F(Loading, UntiedAndPresentIsLoaded) {  // B11
  wanted.push_back({"lm_head.weight", {4, 2}, at::zeros({4, 2})});
  file.push_back({"lm_head.weight", {4, 2}, 100});
  EXPECT_EQ(load().loaded, 4);
  EXPECT_TRUE(at::equal(wanted[3].destination, counting(100, {4, 2})));
}

TEST_F(Loading, AUntiedModelRefusesATiedFilesHeadAsUnexpectedOnlyIfItHasNoPlaceForIt) {
  file.push_back({"lm_head.weight", {4, 2}, 0});
  EXPECT_THAT(refusal(), HasSubstr("unexpected: lm_head.weight"));
}

TEST_F(Loading, FlatRangesOfParametersAreFilled) {  // what a rank of a sharded run asks for
  std::vector<WantedTensor> slices = {{"model.embed_tokens.weight", {4, 2}, at::zeros({3}), 5},
                                      {"model.norm.weight", {2}, at::zeros({0}), 1},
                                      {"model.layers.0.self_attn.q_proj.weight", {2, 2}, at::zeros({2}), 1}};
  write_floats(place / "model.safetensors", file);
  load_weights(HfWeights(place.path()), slices, {});
  EXPECT_TRUE(at::equal(slices[0].destination, counting(5, {3})));
  EXPECT_TRUE(at::equal(slices[2].destination, counting(11, {2})));
}

TEST_F(Loading, QuantisedTypesAreRefusedByName) {
  SafetensorsWriter writer(place / "model.safetensors", {{"model.norm.weight", StoredDtype::kI8, {2}}});
  const std::byte two[2] = {};
  writer.write(two);
  writer.finish();
  EXPECT_THAT(user_error([&] { load_weights(HfWeights(place.path()), {wanted[2]}, {}); }),
              AllOf(HasSubstr("model.norm.weight"), HasSubstr("I8")));
}

TEST(LoadWeights, TensorsOfManyChunksArriveWhole) {
  constexpr int64_t kCount = (int64_t{1} << 22) * 2 + 1001;  // two full chunks and a rest
  const TemporaryPlace place;
  write_floats(place / "model.safetensors", {{"w", {kCount}, -1000}});
  const at::Tensor loaded = at::empty({kCount});
  load_weights(HfWeights(place.path()), {{"w", {kCount}, loaded}}, {});
  std::vector<float> expected = test::values_of({"w", {kCount}, -1000});
  EXPECT_TRUE(at::equal(loaded, at::from_blob(expected.data(), {kCount})));
}

// Every pair of types, from data that lies aligned and unaligned in its file.
TEST(LoadWeights, ConvertsLikeTorchFromAlignedAndUnalignedFiles) {
  constexpr int64_t kCount = 5001;
  at::Tensor values = at::randn({kCount}, at::kDouble) * 100;
  values[0] = std::numeric_limits<double>::quiet_NaN();
  values[1] = std::numeric_limits<double>::infinity();
  values[2] = -0.0;
  values[3] = 1e-42;
  const TemporaryPlace place;
  for (const StoredDtype stored : {StoredDtype::kF64, StoredDtype::kF32, StoredDtype::kBF16, StoredDtype::kF16}) {
    const at::Tensor source = values.to(to_scalar_type(stored));
    const std::string_view data(static_cast<const char*>(source.data_ptr()), source.nbytes());
    for (const char* padding : {"", " "}) {  // moves the data off its alignment
      const std::string header = fmt::format(R"({{"w":{{"dtype":"{}","shape":[{}],"data_offsets":[0,{}]}}}}{})", dtype_name(stored), kCount,
                                             source.nbytes(), padding);
      test::write_text(place / "model.safetensors", test::raw_safetensors(header, 0) + std::string(data));
      const HfWeights weights(place.path());
      for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
        const at::Tensor loaded = at::empty({kCount}, type);
        load_weights(weights, {{"w", {kCount}, loaded}}, {});
        const at::Tensor expected = source.to(type);
        ASSERT_TRUE(at::equal(loaded.isnan(), expected.isnan()) && at::equal(loaded.nan_to_num(0), expected.nan_to_num(0)))
            << dtype_name(stored) << " to " << type;
      }
    }
  }
}

}  // namespace
}  // namespace trine
