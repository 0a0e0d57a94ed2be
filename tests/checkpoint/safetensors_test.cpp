// cases.md B1-B8: hostile, damaged and unusual safetensors files.
#include "checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "tests/checkpoint/test_files.h"

namespace trine {
namespace {

using test::raw_safetensors;
using test::TemporaryPlace;
using testing::AllOf;
using testing::HasSubstr;

// What the reader says about a file with this content; empty if it accepts it.
std::string verdict(const std::string& content) {
  return test::user_error([&] { parse_safetensors(std::as_bytes(std::span(content)), "model.safetensors"); });
}

std::string verdict(const std::string& header, size_t data_bytes) { return verdict(raw_safetensors(header, data_bytes)); }

TEST(Safetensors, DataThatDoesNotFitTypeAndShapeIsRefusedWithFileAndTensor) {  // B1
  const std::string text = verdict(R"({"w":{"dtype":"F32","shape":[1000,1000],"data_offsets":[0,4]}})", 4);
  EXPECT_THAT(text, AllOf(HasSubstr("model.safetensors"), HasSubstr("\"w\""), HasSubstr("4000000")));
  EXPECT_THAT(verdict(R"({"w":{"dtype":"F32","shape":[1000,1000],"data_offsets":[0,4000000]}})", 4), HasSubstr("cut short"));
}

TEST(Safetensors, SizesThatOverflowAreRefused) {  // B1
  EXPECT_THAT(verdict(R"({"w":{"dtype":"F32","shape":[1099511627776,1099511627776],"data_offsets":[0,4]}})", 4), HasSubstr("impossible"));
  EXPECT_THAT(verdict(R"({"w":{"dtype":"F64","shape":[4611686018427387904],"data_offsets":[0,0]}})", 0), HasSubstr("impossible"));
  EXPECT_THAT(verdict(R"({"w":{"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,1]}})", 1), HasSubstr("bad size"));
  EXPECT_THAT(verdict(R"({"w":{"dtype":"U8","shape":[99999999999999999999],"data_offsets":[0,1]}})", 1), HasSubstr("bad size"));
}

TEST(Safetensors, ReversedNegativeAndForeignOffsetsAreRefused) {  // B1
  EXPECT_THAT(verdict(R"({"w":{"dtype":"U8","shape":[4],"data_offsets":[4,0]}})", 4), HasSubstr("before it begins"));
  EXPECT_THAT(verdict(R"({"w":{"dtype":"U8","shape":[4],"data_offsets":[-4,0]}})", 4), HasSubstr("pair of byte positions"));
  EXPECT_THAT(verdict(R"({"w":{"dtype":"U8","shape":[4],"data_offsets":[0.0,4.0]}})", 4), HasSubstr("pair of byte positions"));
  EXPECT_THAT(verdict(R"({"w":{"dtype":"U8","shape":[-4],"data_offsets":[0,4]}})", 4), HasSubstr("bad size"));
  EXPECT_THAT(verdict(R"({"w":{"dtype":"U8","shape":[4],"data_offsets":[18446744073709551612,18446744073709551615]}})", 4),
              HasSubstr("needs 4 bytes"));
}

TEST(Safetensors, UnknownTypesAreRefusedWhateverTheirOffsets) {  // B1
  EXPECT_THAT(verdict(R"({"w":{"dtype":"F7","shape":[4],"data_offsets":[900,904]}})", 4),
              AllOf(HasSubstr("unknown dtype"), HasSubstr("F7")));
}

TEST(Safetensors, OverlapsAndHolesAreRefused) {  // B1: two names must not share bytes
  EXPECT_THAT(verdict(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})", 6),
              HasSubstr("the one before it ends at 4"));
  EXPECT_THAT(verdict(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[2],"data_offsets":[6,8]}})", 8),
              HasSubstr("begins at byte 6"));
}

TEST(Safetensors, DuplicateNamesAreNamed) {  // B3
  const std::string one = R"("a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  EXPECT_THAT(verdict("{" + one + "," + one + "}", 4), AllOf(HasSubstr("\"a\""), HasSubstr("twice")));
}

TEST(Safetensors, LengthsThatTheFileDoesNotHaveAreRefusedWithoutAllocating) {  // B4
  rusage before{}, after{};
  ::getrusage(RUSAGE_SELF, &before);
  EXPECT_THAT(verdict(""), HasSubstr("too few"));
  EXPECT_THAT(verdict("1234567"), HasSubstr("too few"));
  EXPECT_THAT(verdict(std::string(8, '\xff')), HasSubstr("claims 18446744073709551615"));
  std::string claims_much(16, '\0');
  const uint64_t length = 1'000'000'000;
  std::memcpy(claims_much.data(), &length, sizeof(length));
  EXPECT_THAT(verdict(claims_much), HasSubstr("claims 1000000000 bytes, but only 8 follow"));
  ::getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 50 * 1024);  // KiB
}

TEST(Safetensors, HeadersOverTheFormatsLimitAreRefused) {  // B4, with a file that is long enough (sparse)
  const TemporaryPlace place;
  const auto file = place / "long.safetensors";
  std::string start(9, '{');
  const uint64_t length = 100'000'001;
  std::memcpy(start.data(), &length, sizeof(length));
  test::write_text(file, start);
  std::filesystem::resize_file(file, length + 8);
  EXPECT_THAT(test::user_error([&] { SafetensorsFile opened(file); }), HasSubstr("limit of 100000000"));
}

TEST(Safetensors, EmptyAndRankZeroTensorsAreLegal) {  // B5
  const std::string content = raw_safetensors(
      R"({"scalar":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"none":{"dtype":"F32","shape":[0],"data_offsets":[4,4]},)"
      R"("nothing":{"dtype":"I64","shape":[2,0],"data_offsets":[0,0]}})", 4);
  const SafetensorsHeader header = parse_safetensors(std::as_bytes(std::span(content)), "x");
  ASSERT_EQ(header.entries.size(), 3u);
  EXPECT_EQ(header.entries[0].name, "nothing");
  EXPECT_EQ(header.entries[1].name, "scalar");
  EXPECT_EQ(header.entries[1].end - header.entries[1].begin, 4u);
  EXPECT_THAT(verdict(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,0]}})", 0), HasSubstr("needs 4 bytes"));
}

TEST(Safetensors, MetadataMayBeAbsentEmptyOrAlone) {  // B7
  EXPECT_EQ(verdict("{}", 0), "");
  EXPECT_EQ(verdict(R"({"__metadata__":{}})", 0), "");
  EXPECT_EQ(verdict(R"({"__metadata__":{"format":"pt","other":"x"},"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1), "");
  EXPECT_THAT(verdict(R"({"__metadata__":{"format":1}})", 0), HasSubstr("not a string"));
  EXPECT_THAT(verdict(R"({"__metadata__":[]})", 0), HasSubstr("not an object"));
}

TEST(Safetensors, CutShortAndTrailingBytesAreRefusedWithSizes) {  // B8
  const std::string header = R"({"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})";
  EXPECT_EQ(verdict(header, 4), "");
  EXPECT_THAT(verdict(header, 3), AllOf(HasSubstr("holds 3"), HasSubstr("describes 4"), HasSubstr("download it again")));
  EXPECT_THAT(verdict(header, 5), AllOf(HasSubstr("1 bytes follow"), HasSubstr("4 of tensor data expected, 5 found")));
}

TEST(Safetensors, OtherFilesAreRecognised) {
  EXPECT_THAT(verdict("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n"), HasSubstr("git-lfs"));
  EXPECT_THAT(verdict("[[1,2,3]]", 0), HasSubstr("no safetensors file"));
  EXPECT_THAT(verdict("{\"w\":", 0), HasSubstr("not valid JSON"));
  EXPECT_THAT(verdict(R"({"w":{"dtype":"U8","shape":[4]}})", 0), HasSubstr("\"data_offsets\" is missing"));
  EXPECT_THAT(verdict(R"({"w":7})", 0), HasSubstr("not an object"));
  EXPECT_THAT(verdict(R"({"w":{"dtype":8,"shape":[4],"data_offsets":[0,4]}})", 4), HasSubstr("not a string"));
  EXPECT_THAT(verdict(R"({"w":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}})", 1), HasSubstr("impossible"));
}

TEST(SafetensorsWriter, AlignsEveryTensorAndWritesTheSameBytesEachTime) {
  const TemporaryPlace place;
  const auto write = [&](const char* name) {
    SafetensorsWriter writer(place / name, {{"half", StoredDtype::kBF16, {3}},
                                            {"byte", StoredDtype::kU8, {}},
                                            {"wide", StoredDtype::kF64, {2}},
                                            {"none", StoredDtype::kF32, {0, 5}}});
    std::byte data[16 + 6 + 1];
    for (size_t i = 0; i < sizeof(data); ++i) data[i] = static_cast<std::byte>(i);
    writer.write(std::span(data).first(10));  // pieces need not end where tensors do
    writer.write(std::span(data).subspan(10));
    writer.finish();
    EXPECT_EQ(writer.hash(), xxh3_hex_of_file(place / name));
    EXPECT_EQ(writer.file_bytes(), std::filesystem::file_size(place / name));
  };
  write("a.safetensors");
  write("b.safetensors");
  EXPECT_EQ(read_file(place / "a.safetensors"), read_file(place / "b.safetensors"));
  const SafetensorsFile file(place / "a.safetensors");
  EXPECT_EQ(file.metadata().at("format"), "pt");  // B7
  for (const TensorEntry& entry : file.entries()) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(file.data(entry).data()) % (static_cast<size_t>(dtype_bits(entry.dtype)) / 8), 0u) << entry.name;
  }
  EXPECT_EQ(file.data(*file.find("wide"))[0], std::byte{0});
  EXPECT_EQ(file.data(*file.find("half"))[0], std::byte{16});
  EXPECT_EQ(file.data(*file.find("byte"))[0], std::byte{22});
  EXPECT_EQ(file.find("half ") , nullptr);
}

TEST(SafetensorsWriter, RefusesTooFewAndTooManyBytes) {
  const TemporaryPlace place;
  SafetensorsWriter writer(place / "x.safetensors", {{"w", StoredDtype::kU8, {4}}});
  const std::byte data[5] = {};
  EXPECT_THROW(writer.write(data), std::logic_error);
  writer.write(std::span(data).first(3));
  EXPECT_THROW(writer.finish(), std::logic_error);
}

}  // namespace
}  // namespace trine
