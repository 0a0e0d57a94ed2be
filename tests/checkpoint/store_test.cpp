// What a checkpoint holds: any layout written, any other read, and damage found.
#include "checkpoint/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/checkpoint/store_fixture.h"

namespace trine {
namespace {

using test::floats;
using test::TemporaryPlace;
using test::user_error;
using testing::AllOf;
using testing::HasSubstr;

const std::vector<int64_t> kShape = {6, 8};

// A layout: `tensor` ranks cut dimension `dim`, and `shards` ranks deal out each part's elements.
std::vector<Slice> layout(const std::string& kind, int64_t dim, int64_t tensor, int64_t shards) {
  std::vector<Slice> slices;
  const int64_t size = kShape[static_cast<size_t>(dim)];
  for (int64_t t = 0; t < tensor; ++t) {
    const int64_t part_begin = t * size / tensor, part_end = (t + 1) * size / tensor, part = 48 / size * (part_end - part_begin);
    for (int64_t s = 0; s < shards; ++s)
      slices.push_back({"w", kind, dim, part_begin, part_end, s * part / shards, (s + 1) * part / shards});
  }
  return slices;
}

// What a slice of the tensor 0, 1, 2, ... holds.
std::vector<float> values_of(const Slice& slice) {
  std::vector<float> values;
  for (const Run& run : runs_of(slice, kShape)) {
    for (int64_t i = 0; i < run.count; ++i) values.push_back(static_cast<float>(run.in_parameter + i));
  }
  return values;
}

TEST(Store, WhatOneLayoutWroteAnyOtherReads) {
  const TemporaryPlace place;
  struct Cut {
    int64_t dim, tensor, shards;
  };
  const Cut cuts[] = {{0, 1, 1}, {0, 1, 4}, {0, 1, 7}, {0, 3, 2}, {1, 2, 1}, {1, 2, 5}, {1, 8, 1}, {1, 3, 4}};
  int64_t step = 0;
  for (const Cut& from : cuts) {
    CheckpointWriter writer(place.path(), ++step, 0);
    int rank = 0;
    for (const Slice& slice : layout(kMaster, from.dim, from.tensor, from.shards)) {
      const std::vector<float> values = values_of(slice);
      writer.write_slices({{slice, kShape, StoredDtype::kF32, std::as_bytes(std::span(values))}}, rank++);
    }
    const CheckpointReader reader(writer.publish({{"w", kShape}}, {{"step", step}}));
    for (const Cut& to : cuts) {
      for (const Slice& slice : layout(kMaster, to.dim, to.tensor, to.shards)) {
        std::vector<float> values(static_cast<size_t>(slice.count()), -1);
        reader.read(slice, std::as_writable_bytes(std::span(values)));
        ASSERT_EQ(values, values_of(slice));
      }
    }
    std::vector<float> range;
    reader.visit("w", kMaster, 5, 29, [&](int64_t first, std::span<const std::byte> bytes) {
      EXPECT_EQ(first, 5 + static_cast<int64_t>(range.size()));  // ascending and without gaps
      const std::vector<float> piece = floats(bytes);
      range.insert(range.end(), piece.begin(), piece.end());
    });
    EXPECT_EQ(range, values_of(flat_slice("w", kMaster, kShape, 5, 29)));
  }
}

struct Stored : testing::Test {
  Stored() : folder(test::save(place.path(), 40)) {}
  std::string verdict(const std::vector<std::string>& kinds = {}) {
    return user_error([&] { CheckpointReader opened(folder, kinds); });
  }

  TemporaryPlace place;
  std::filesystem::path folder;
};

TEST_F(Stored, GivesBackWhatWasSaved) {
  const CheckpointReader reader(folder);
  EXPECT_EQ(reader.step(), 40);
  EXPECT_EQ(reader.state()["data"]["position"], 1234);
  EXPECT_EQ(reader.side_file("config.json"), R"({"model_type": "qwen3"})");
  EXPECT_THAT(reader.kinds(), testing::ElementsAre("exp_avg", "exp_avg_sq", "master"));
  EXPECT_EQ(reader.dtype("a", kMaster), StoredDtype::kF32);
  EXPECT_EQ(reader.dtype("a", "other"), std::nullopt);
  std::vector<float> values(6);
  reader.read(whole_slice("a", kExpAvg, {2, 3}), std::as_writable_bytes(std::span(values)));
  EXPECT_EQ(values, test::expected("a", kExpAvg, 40));
  for (const auto& entry : std::filesystem::directory_iterator(place.path())) EXPECT_EQ(entry.path(), folder);  // nothing is left over
}

TEST_F(Stored, WholeParametersAreReadableAsPlainSafetensors) {
  const SafetensorsFile file(folder / "master-00000.safetensors");
  ASSERT_NE(file.find("a"), nullptr);
  EXPECT_EQ(file.find("a")->shape, (std::vector<int64_t>{2, 3}));
}

TEST_F(Stored, WeightsAloneOpenLikeAFolderOfWeights) {
  const auto weights = open_weights(folder);
  EXPECT_THAT(weights->names(), testing::ElementsAre("a", "b"));
  EXPECT_THAT(weights->description(), HasSubstr("step 40"));
  std::vector<float> values;
  weights->visit(*weights->find("b"), 1, 4, [&](int64_t, std::span<const std::byte> bytes) {
    for (float value : floats(bytes)) values.push_back(value);
  });
  const std::vector<float> all = test::expected("b", kMaster, 40);
  EXPECT_EQ(values, std::vector<float>(all.begin() + 1, all.begin() + 4));
}

TEST_F(Stored, AskingForWhatIsNotThereIsAnError) {
  const CheckpointReader reader(folder);
  std::vector<float> values(6);
  const auto read = [&](const Slice& slice) {
    return user_error([&] { reader.read(slice, std::as_writable_bytes(std::span(values))); });
  };
  EXPECT_THAT(read(whole_slice("a", "momentum", {2, 3})), HasSubstr("no momentum of a"));
  EXPECT_THAT(read(whole_slice("aa", kMaster, {2, 3})), AllOf(HasSubstr("no parameter aa"), HasSubstr("Did you mean \"a\"")));
  EXPECT_THAT(read(whole_slice("a", kMaster, {3, 3})), HasSubstr("asked for"));
  EXPECT_THAT(user_error([&] { reader.side_file("x"); }), HasSubstr("holds no x"));
}

TEST_F(Stored, AFlippedBitIsFound) {  // I1
  for (const char* name : {"master-00000.safetensors", "exp_avg_sq-00000.safetensors", "state.json", "config.json", "manifest.json"}) {
    const std::string good = read_file(folder / name);
    for (const size_t at : {good.size() - 3, good.size() / 2}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ 1);
      test::write_text(folder / name, bad);
      EXPECT_THAT(verdict(), HasSubstr(name)) << "byte " << at;
    }
    test::write_text(folder / name, good);
    EXPECT_EQ(verdict(), "");
  }
}

TEST_F(Stored, AMissingShortOrLongFileIsFound) {  // I1
  for (const char* name : {"master-00000.safetensors", "exp_avg-00000.safetensors", "state.json", "manifest.json"}) {
    const std::string good = read_file(folder / name);
    test::write_text(folder / name, good.substr(0, good.size() - 2));
    EXPECT_NE(verdict({kMaster}), "") << name;
    test::write_text(folder / name, good + " ");
    EXPECT_EQ(verdict({kMaster}).empty(), std::string(name) == "manifest.json") << name;  // white space there changes nothing
    std::filesystem::remove(folder / name);
    EXPECT_THAT(verdict({kMaster}), HasSubstr(name));
    test::write_text(folder / name, good);
  }
}

TEST_F(Stored, OnlyTheKindsAskedForAreRead) {
  std::string moments = read_file(folder / "exp_avg-00000.safetensors");
  moments.back() ^= 1;
  test::write_text(folder / "exp_avg-00000.safetensors", moments);
  EXPECT_NE(verdict(), "");
  EXPECT_EQ(verdict({kMaster}), "");
  EXPECT_EQ(CheckpointReader(folder, {kMaster}).dtype("a", kExpAvg), std::nullopt);
}

TEST_F(Stored, ANewerFormatIsRefusedByVersion) {
  std::string manifest = read_file(folder / "manifest.json");
  manifest.replace(manifest.find("\"version\": 1"), 12, "\"version\": 2");
  test::write_text(folder / "manifest.json", manifest);
  EXPECT_THROW(CheckpointReader{folder}, NewerFormat);
  EXPECT_THAT(verdict(), AllOf(HasSubstr("version 2"), HasSubstr("newer")));
}

TEST(Store, WhatDoesNotCoverTheModelIsNotPublished) {
  const TemporaryPlace place;
  const std::vector<float> values(48);
  const auto bytes = std::as_bytes(std::span(values));
  {
    CheckpointWriter writer(place.path(), 1, 0);
    writer.write_slices({{flat_slice("w", kMaster, kShape, 0, 40), kShape, StoredDtype::kF32, bytes.first(160)}});
    EXPECT_THROW(writer.publish({{"w", kShape}}, {}), std::logic_error);
  }
  {
    CheckpointWriter writer(place.path(), 1, 0);
    writer.write_slices({{whole_slice("w", kExpAvg, kShape), kShape, StoredDtype::kF32, bytes}});
    EXPECT_THROW(writer.publish({{"w", kShape}}, {}), std::logic_error);  // moments without weights
  }
  EXPECT_TRUE(std::filesystem::is_empty(place.path()));
}

}  // namespace
}  // namespace trine
