// Shards: what is written is read back, and no file, however broken, is read past its end or taken for whole.
#include <random>

#include "base/files.h"
#include "tests/data/fixtures.h"

namespace trine {
namespace {

using testing::HasSubstr;

const std::vector<std::vector<int32_t>> kDocuments = {{1, 2, 3}, {}, {60000}, {7, 8}};

std::string write_shard(const TemporaryFolder& folder, int64_t vocab_size, const std::string& name = "a.tokens") {
  const std::string file = (folder.path / name).string();
  ShardWriter writer(file, vocab_size, tokenizer_fingerprint(byte_tokenizer()));
  for (const auto& document : kDocuments) writer.add(document);
  writer.finish();
  return file;
}

TEST(Shards, GiveBackWhatWasWrittenInTheNarrowestWidth) {
  const TemporaryFolder folder;
  for (const auto& [vocab_size, width] : {std::pair<int64_t, int32_t>{65536, 2}, {65537, 4}}) {
    const Shard shard(write_shard(folder, vocab_size));
    EXPECT_EQ(shard.token_bytes(), width);
    EXPECT_EQ(shard.vocab_size(), vocab_size);
    EXPECT_EQ(shard.num_documents(), 4);
    EXPECT_EQ(shard.num_tokens(), 6);
    EXPECT_EQ(shard.tokenizer_fingerprint(), tokenizer_fingerprint(byte_tokenizer()));
    for (size_t i = 0; i < kDocuments.size(); ++i) EXPECT_EQ(token_ids(shard.document(static_cast<int64_t>(i)), width), kDocuments[i]);
  }
}

TEST(Shards, MayBeEmpty) {
  const TemporaryFolder folder;
  ShardWriter writer(folder.path / "a.tokens", 10, tokenizer_fingerprint(byte_tokenizer()));
  writer.finish();
  EXPECT_EQ(Shard(folder.path / "a.tokens").num_documents(), 0);
}

TEST(Shards, LoadAsTheTextThatTheyWereMadeFrom) {
  const TemporaryFolder folder;
  const std::vector<std::string> texts = {"one", "", "two three", "four", "five"};
  std::filesystem::create_directories(folder.path / "in");
  for (size_t file = 0; file < 2; ++file) {
    ShardWriter writer(folder.path / fmt::format("in/{}.tokens", file), 259, tokenizer_fingerprint(byte_tokenizer()));
    for (size_t i = file * 3; i < std::min<size_t>(file * 3 + 3, texts.size()); ++i) writer.add(byte_tokenizer().encode(texts[i]));
    writer.finish();
  }
  DataloaderConfig from_text = plain_settings("jsonl", {folder.write("a.jsonl", jsonl(texts))});
  DataloaderConfig from_shards = plain_settings("shards", {(folder.path / "in").string()});
  from_text.shuffle_window = from_shards.shuffle_window = 100;
  const Batch expected = all_rows(*load(from_text, 5)), found = all_rows(*load(from_shards, 5));
  EXPECT_EQ(found.input_ids, expected.input_ids);
  EXPECT_EQ(found.labels, expected.labels);
}

TEST(Shards, RefuseAnIdOutsideTheVocabularyWhenWritten) {
  const TemporaryFolder folder;
  ShardWriter writer(folder.path / "a.tokens", 10, tokenizer_fingerprint(byte_tokenizer()));
  EXPECT_THAT(error_of([&] { writer.add(std::vector<int32_t>{10}); }), HasSubstr("token id 10 is outside the vocabulary of 10"));
  EXPECT_THAT(error_of([&] { writer.add(std::vector<int32_t>{-1}); }), HasSubstr("token id -1"));
}

TEST(Shards, OfAnotherTokenizerAreRefusedNamingBothFingerprints) {
  const TemporaryFolder folder;
  const std::string file = (folder.path / "a.tokens").string(), other(32, 'a');
  ShardWriter writer(file, 300, other);
  writer.add(std::vector<int32_t>{1});
  writer.finish();
  const std::string error = error_of([&] { all_rows(*load(plain_settings("shards", {file}), 4)); });
  EXPECT_THAT(error, HasSubstr(other));
  EXPECT_THAT(error, HasSubstr(tokenizer_fingerprint(byte_tokenizer())));
}

TEST(Shards, CutShortAtAnyByteAreRefused) {
  const TemporaryFolder folder;
  const std::string whole = read_file(write_shard(folder, 65536));
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string file = folder.write("cut.tokens", whole.substr(0, size));
    EXPECT_THROW(Shard{file}, UserError) << size;
  }
  EXPECT_THROW(Shard{folder.write("long.tokens", whole + "x")}, UserError);
}

TEST(Shards, WithAnyByteChangedAreRefused) {
  const TemporaryFolder folder;
  const std::string whole = read_file(write_shard(folder, 65536));
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_THROW(Shard{folder.write("changed.tokens", changed)}, UserError) << i;
  }
}

// Damage that comes with a matching checksum: counts and offsets are checked in their own right.
TEST(Shards, WithHostileCountsAreRefusedBeforeAnyIsUsed) {
  const TemporaryFolder folder;
  const std::string whole = read_file(write_shard(folder, 65536));
  const size_t trailer = whole.size() - 80;
  const auto with = [&](size_t at, uint64_t value) {
    std::string changed = whole;
    std::memcpy(changed.data() + at, &value, sizeof value);
    Xxh3 digest;
    digest.update(std::as_bytes(std::span(changed.data(), trailer + 40)));
    changed.replace(trailer + 40, 32, digest.hex());
    return error_of([&] { Shard{folder.write("hostile.tokens", changed)}; });
  };
  const size_t starts = trailer - 5 * 8;
  for (const uint64_t huge : {uint64_t{1} << 62, ~uint64_t{0}, uint64_t{1} << 40}) {
    EXPECT_THAT(with(trailer, huge), HasSubstr("do not fit"));      // documents
    EXPECT_THAT(with(trailer + 8, huge), HasSubstr("do not fit"));  // tokens
    EXPECT_THAT(with(starts + 8, huge), HasSubstr("ends before it begins"));
    EXPECT_THAT(with(starts + 32, huge), HasSubstr("do not cover"));
  }
  EXPECT_THAT(with(trailer, 3), HasSubstr("need"));
  EXPECT_THAT(with(starts, 1), HasSubstr("do not cover"));
}

TEST(Shards, OfANewerVersionAreRefusedSayingSo) {
  const TemporaryFolder folder;
  std::string bytes = read_file(write_shard(folder, 65536));
  bytes[8] = 2;
  EXPECT_THAT(error_of([&] { Shard{folder.write("new.tokens", bytes)}; }),
              HasSubstr("shard format version 2; this program reads version 1"));
}

TEST(Shards, ThatAreRandomBytesAreRefused) {
  const TemporaryFolder folder;
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    std::string bytes(random() % 400, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    if (i % 2 && bytes.size() >= 16) bytes.replace(0, 16, std::string_view("TRNSHARD\1\0\0\0\2\0\0\0", 16));
    if (i % 4 == 3 && bytes.size() >= 100) bytes.replace(bytes.size() - 8, 8, "DRAHSNRT");
    EXPECT_THROW(Shard{folder.write("random.tokens", bytes)}, UserError);
  }
}

}  // namespace
}  // namespace trine
