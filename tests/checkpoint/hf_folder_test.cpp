// cases.md B3, B8, B9: which files make up a model folder.
#include "checkpoint/hf_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/checkpoint/test_files.h"

namespace trine {
namespace {

using test::TemporaryPlace;
using test::user_error;
using test::write_floats;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

// Two shards with an index: "a" and "b" in the first, "c" in the second.
struct Sharded : testing::Test {
  Sharded() {
    write_floats(first, {{"a", {2, 3}, 0}, {"b", {4}, 10}});
    write_floats(second, {{"c", {5}, 20}});
    write_index(R"({"metadata":{"total_size":60},"weight_map":{"a":"m-1.safetensors","b":"m-1.safetensors","c":"m-2.safetensors"}})");
  }
  void write_index(const std::string& text) { test::write_text(place / "model.safetensors.index.json", text); }
  std::string verdict() {
    return user_error([&] { HfWeights opened(place.path()); });
  }

  TemporaryPlace place;
  std::filesystem::path first = place / "m-1.safetensors", second = place / "m-2.safetensors";
};

std::vector<float> floats_of(const HfWeights& weights, const std::string& name) {
  const auto bytes = weights.bytes(*weights.find(name));
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST_F(Sharded, IndexAndShardsOpenAsOne) {
  const HfWeights weights(place.path());
  EXPECT_THAT(weights.names(), testing::UnorderedElementsAre("a", "b", "c"));
  EXPECT_THAT(floats_of(weights, "c"), testing::ElementsAre(20, 21, 22, 23, 24));
  EXPECT_THAT(weights.notes(), IsEmpty());
  EXPECT_TRUE(weights.has_index());
}

TEST_F(Sharded, VisitGivesTheRangeAskedFor) {
  const HfWeights weights(place.path());
  std::vector<float> values(2);
  weights.visit(*weights.find("b"), 1, 3, [&](int64_t first, std::span<const std::byte> bytes) {
    EXPECT_EQ(first, 1);
    ASSERT_EQ(bytes.size(), 8u);
    std::memcpy(values.data(), bytes.data(), bytes.size());
  });
  EXPECT_THAT(values, testing::ElementsAre(11, 12));
}

TEST_F(Sharded, MissingShardIsNamed) {  // B9
  std::filesystem::remove(second);
  EXPECT_THAT(verdict(), AllOf(HasSubstr("1 of the 2 shards"), HasSubstr("m-2.safetensors")));
}

TEST_F(Sharded, StrayFileIsIgnoredWithANote) {  // B9
  write_floats(place / "stray.safetensors", {{"a", {2, 3}, 100}});
  const HfWeights weights(place.path());
  EXPECT_THAT(weights.notes(), testing::ElementsAre(AllOf(HasSubstr("stray.safetensors"), HasSubstr("ignored"))));
  EXPECT_EQ(floats_of(weights, "a")[0], 0);
}

TEST_F(Sharded, KeyInAnotherShardThanListedIsNamed) {  // B9
  write_floats(first, {{"a", {2, 3}}});
  write_floats(second, {{"b", {4}}, {"c", {5}}});
  EXPECT_THAT(verdict(), HasSubstr("b (listed in m-1.safetensors, found in m-2.safetensors)"));
}

TEST_F(Sharded, KeyInNoShardAndKeyNotListedAreNamed) {  // B9
  write_index(R"({"weight_map":{"a":"m-1.safetensors","b":"m-1.safetensors","d":"m-2.safetensors"}})");
  EXPECT_THAT(verdict(), AllOf(HasSubstr("d (listed in m-2.safetensors, in no shard)"), HasSubstr("c (in m-2.safetensors, not listed)")));
}

TEST_F(Sharded, KeyInTwoShardsIsAnError) {  // B9
  write_floats(second, {{"b", {4}}, {"c", {5}}});
  EXPECT_THAT(verdict(), HasSubstr("b (in 2 shards"));
}

TEST_F(Sharded, KeyListedTwiceIsAnError) {  // B3
  write_index(R"({"weight_map":{"a":"m-1.safetensors","a":"m-2.safetensors"}})");
  EXPECT_THAT(verdict(), AllOf(HasSubstr("\"a\""), HasSubstr("twice")));
}

TEST_F(Sharded, IndexCannotReachOutsideItsFolder) {
  for (const char* name : {"../m-1.safetensors", "/etc/passwd", "..", ""}) {
    write_index(fmt::format(R"({{"weight_map":{{"a":"{}"}}}})", name));
    EXPECT_THAT(verdict(), HasSubstr("not a file of this folder")) << name;
  }
}

TEST_F(Sharded, MalformedIndexIsNamed) {
  for (const char* text : {"", "[]", "{}", R"({"weight_map":[]})", R"({"weight_map":{}})", R"({"weight_map":{"a":1}})"}) {
    write_index(text);
    EXPECT_THAT(verdict(), HasSubstr("model.safetensors.index.json")) << text;
  }
}

TEST_F(Sharded, CutOrLengthenedSecondShardIsNamedAtTheStart) {  // B8
  const std::string good = read_file(second);
  test::write_text(second, std::string_view(good).substr(0, good.size() - 1));
  EXPECT_THAT(verdict(), AllOf(HasSubstr("m-2.safetensors"), HasSubstr("cut short")));
  test::write_text(second, good + "x");
  EXPECT_THAT(verdict(), AllOf(HasSubstr("m-2.safetensors"), HasSubstr("1 bytes follow")));
}

TEST_F(Sharded, LinksToFilesElsewhereWork) {  // as in a hub cache
  const TemporaryPlace linked;
  for (const char* name : {"m-1.safetensors", "m-2.safetensors", "model.safetensors.index.json"}) {
    std::filesystem::create_symlink(place / name, linked / name);
  }
  EXPECT_EQ(HfWeights(linked.path()).tensors().size(), 3u);
  std::filesystem::remove(second);  // now a dangling link
  EXPECT_THAT(user_error([&] { HfWeights opened(linked.path()); }), HasSubstr("missing: m-2.safetensors"));
}

TEST_F(Sharded, WrongTotalSizeIsNoted) {
  write_index(R"({"metadata":{"total_size":61},"weight_map":{"a":"m-1.safetensors","b":"m-1.safetensors","c":"m-2.safetensors"}})");
  EXPECT_THAT(HfWeights(place.path()).notes(), testing::ElementsAre(HasSubstr("total_size is 61, the shards hold 60")));
}

TEST_F(Sharded, WithoutAnIndexFilesMustBeDisjoint) {  // B9
  std::filesystem::remove(place / "model.safetensors.index.json");
  EXPECT_EQ(HfWeights(place.path()).tensors().size(), 3u);
  write_floats(place / "stray.safetensors", {{"b", {4}}});
  EXPECT_THAT(verdict(), AllOf(HasSubstr("\"b\""), HasSubstr("m-1.safetensors"), HasSubstr("stray.safetensors")));
}

TEST(HfFolder, FolderWithoutWeightsSaysWhatItHolds) {
  const TemporaryPlace place;
  EXPECT_THAT(user_error([&] { HfWeights opened(place.path()); }), HasSubstr("holds no .safetensors file"));
  EXPECT_FALSE(has_hf_weights(place.path()));
  test::write_text(place / "pytorch_model.bin", "x");
  EXPECT_THAT(user_error([&] { HfWeights opened(place.path()); }), HasSubstr("convert pytorch_model.bin"));
  EXPECT_THAT(user_error([&] { HfWeights opened(place / "absent"); }), HasSubstr("no such folder"));
  write_floats(place / "model.safetensors", {{"a", {1}}});
  EXPECT_TRUE(has_hf_weights(place.path()));
}

}  // namespace
}  // namespace trine
