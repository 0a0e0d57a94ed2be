// Rows: what stands where, which labels count, where pieces begin.
#include "tests/data/fixtures.h"

namespace trine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<int32_t> row_of(const std::vector<int32_t>& all, const Batch& batch, int64_t row) {
  return {all.begin() + row * batch.seq_len, all.begin() + (row + 1) * batch.seq_len};
}

constexpr int32_t kNone = kIgnoreIndex;

TEST(Rows, AreTheStreamOfDocumentsWithTheirEndTokensCutEverySeqLenTokens) {
  const TemporaryFolder folder;
  const auto loader = load(plain_settings("jsonl", {folder.write("a.jsonl", jsonl({"abcdef", "gh", "ijk"}))}), 5);
  const Batch batch = all_rows(*loader);
  ASSERT_EQ(batch.num_rows, 3);
  // stream: a b c d e | f . g h . | i j k .
  EXPECT_THAT(row_of(batch.input_ids, batch, 0), ElementsAre('a', 'b', 'c', 'd', 'e'));
  EXPECT_THAT(row_of(batch.input_ids, batch, 1), ElementsAre('f', kEnd, 'g', 'h', kEnd));
  EXPECT_THAT(row_of(batch.input_ids, batch, 2), ElementsAre('i', 'j', 'k', kEnd, 0));
  // The last label of row 0 is the next token of the same document, though it lies in row 1 (E4).
  EXPECT_THAT(row_of(batch.labels, batch, 0), ElementsAre('b', 'c', 'd', 'e', 'f'));
  EXPECT_THAT(row_of(batch.labels, batch, 1), ElementsAre(kEnd, kNone, 'h', kEnd, kNone));
  EXPECT_THAT(row_of(batch.labels, batch, 2), ElementsAre('j', 'k', kEnd, kNone, kNone));
  EXPECT_THAT(row_of(batch.positions, batch, 1), ElementsAre(0, 1, 0, 1, 2));
  EXPECT_THAT(row_of(batch.positions, batch, 2), ElementsAre(0, 1, 2, 3, 0));
  EXPECT_THAT(batch.piece_starts, ElementsAre(ElementsAre(0), ElementsAre(0, 2), ElementsAre(0, 4)));
  EXPECT_THAT(batch.row_tokens, ElementsAre(5, 5, 4));
  EXPECT_EQ(batch.num_tokens, 14);
  EXPECT_EQ(batch.num_valid, 11);  // Σ(length − 1) = 6 + 2 + 3
}

TEST(Rows, SayWhereEachPieceComesFrom) {
  const TemporaryFolder folder;
  const std::string file = folder.write("a.jsonl", jsonl({"abcdef", "", "gh"}));
  const auto loader = load(plain_settings("jsonl", {file}), 5);
  const Batch batch = all_rows(*loader);
  ASSERT_EQ(batch.num_rows, 2);
  EXPECT_EQ(batch.piece_origins[1][0], (PieceOrigin{.document = 0, .record = 1, .token_offset = 5}));
  EXPECT_EQ(batch.piece_origins[1][1], (PieceOrigin{.document = 1, .record = 3, .token_offset = 0}));
  EXPECT_EQ(loader->describe(batch.piece_origins[1][1]), file + ":3");
}

TEST(Rows, LastTokenOfADocumentHasNoLabel) {  // D3
  const TemporaryFolder folder;
  DataloaderConfig settings = plain_settings("jsonl", {folder.write("a.jsonl", jsonl({"abc", "defg"}))});
  settings.document_end = "none";
  const Batch batch = all_rows(*load(settings, 8));
  EXPECT_EQ(batch.num_valid, 5);
  EXPECT_EQ(batch.num_tokens, 7);
  EXPECT_EQ(batch.labels[2], kNone);
  EXPECT_EQ(batch.labels[6], kNone);
}

TEST(Rows, RestartPositionsAndPiecesAtEveryDocument) {  // D2
  const TemporaryFolder folder;
  DataloaderConfig settings = plain_settings("jsonl", {folder.write("a.jsonl", jsonl({"abcde", "fghijklmn"}))});
  settings.document_end = "none";
  const Batch batch = all_rows(*load(settings, 16));
  EXPECT_THAT(batch.piece_starts[0], ElementsAre(0, 5, 14));
  EXPECT_THAT(batch.positions, ElementsAre(0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 1));
}

TEST(Rows, MaskPaddingByPositionNeverById) {  // C9: padding and end token may share an id; the end tokens' labels count
  const TemporaryFolder folder;
  const std::string file = folder.write("a.jsonl", R"({"text": "ab"})" "\n" R"({"text": "\u0000\u0000cd"})");
  const Batch batch = all_rows(*load(plain_settings("jsonl", {file}), 10));
  // "ab" and its end: 3 tokens, 2 labels. "\0\0cd" and its end: 5 tokens, 4 labels, although 0 is also what fills the padding.
  EXPECT_EQ(batch.num_tokens, 8);
  EXPECT_EQ(batch.num_valid, 2 + 4);
  EXPECT_EQ(batch.labels[1], kEnd);
  EXPECT_EQ(batch.labels[3], 0);
  EXPECT_EQ(batch.row_tokens[0], 8);
}

TEST(Rows, OfADocumentLongerThanARowAreSeveralPieces) {
  const TemporaryFolder folder;
  const Batch batch = all_rows(*load(plain_settings("jsonl", {folder.write("a.jsonl", jsonl({"abcdefghijk"}))}), 4));
  ASSERT_EQ(batch.num_rows, 3);
  EXPECT_EQ(batch.num_valid, 11);
  EXPECT_THAT(batch.positions, ElementsAre(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3));
  EXPECT_EQ(batch.labels[7], 'i');
}

TEST(Rows, FollowEpochAfterEpochAndPadOnlyTheVeryLast) {
  const TemporaryFolder folder;
  DataloaderConfig settings = plain_settings("jsonl", {folder.write("a.jsonl", jsonl({"ab", "c"}))});
  settings.num_epochs = 3;
  const auto loader = load(settings, 4);
  const Batch batch = all_rows(*loader);
  EXPECT_EQ(text_of(ids_of(batch)), "ab|c|ab|c|ab|c|");
  EXPECT_THAT(batch.row_tokens, ElementsAre(4, 4, 4, 3));
  EXPECT_EQ(loader->next(1), std::nullopt);
  EXPECT_EQ(loader->next(1), std::nullopt);
}

TEST(Rows, GoOnWithoutEndWhenNoEpochsAreSet) {
  const TemporaryFolder folder;
  DataloaderConfig settings = plain_settings("jsonl", {folder.write("a.jsonl", jsonl({"ab", "c"}))});
  settings.num_epochs = 0;
  const auto loader = load(settings, 4);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(loader->next(3)->num_rows, 3);
  EXPECT_EQ(loader->next(1)->first_row, 300);
}

TEST(Rows, OfTheLastStepMayBeFewer) {
  const TemporaryFolder folder;
  const auto loader = load(plain_settings("jsonl", {folder.write("a.jsonl", jsonl({"abcdefghi"}))}), 4);
  EXPECT_EQ(loader->next(2)->num_rows, 2);
  EXPECT_EQ(loader->next(2)->num_rows, 1);
  EXPECT_EQ(loader->next(2), std::nullopt);
}

TEST(Rows, TakenFromABatchKeepTheirNumbersAndCounts) {
  const TemporaryFolder folder;
  const Batch batch = all_rows(*load(plain_settings("jsonl", {folder.write("a.jsonl", jsonl({"abcdef", "gh", "ijk"}))}), 5));
  const Batch part = take_rows(batch, 1, 3);
  EXPECT_EQ(part.first_row, 1);
  EXPECT_EQ(part.num_rows, 2);
  EXPECT_EQ(part.num_tokens, 9);
  EXPECT_EQ(part.num_valid, 6);
  EXPECT_EQ(part.piece_starts, (std::vector<std::vector<int32_t>>{{0, 2}, {0, 4}}));
  EXPECT_EQ(take_rows(batch, 0, 3), batch);
  EXPECT_EQ(take_rows(batch, 2, 2).num_rows, 0);
}

TEST(EndToken, IsEndOfTextByDefaultTheEosTokenOnRequestAndNeverDoubled) {
  const TemporaryFolder folder;
  const std::string file = folder.write("a.jsonl", jsonl({"a", "b<|endoftext|>"}));
  DataloaderConfig settings = plain_settings("jsonl", {file});
  EXPECT_THAT(ids_of(all_rows(*load(settings, 8))), ElementsAre('a', kEnd, 'b', kEnd));
  settings.document_end = "eos";
  EXPECT_THAT(ids_of(all_rows(*load(settings, 8))), ElementsAre('a', kImEnd, 'b', kEnd, kImEnd));
}

TEST(EndToken, ThatTheTokenizerLacksIsAnErrorThatNamesTheOption) {
  const TemporaryFolder folder;
  DataloaderConfig settings = plain_settings("jsonl", {folder.write("a.jsonl", jsonl({"a"}))});
  settings.document_end = "eos";
  const Tokenizer nameless = Tokenizer::from_json(byte_tokenizer_json(), "", "test");
  EXPECT_THAT(error_of([&] { make_loader(settings, 4, 1, nameless, kRows); }), HasSubstr("dataloader.document_end = none"));
}

TEST(Ids, WithoutARowInTheModelAreRefusedWithTheirPlace) {  // C8
  const TemporaryFolder folder;
  const std::string file = folder.write("a.jsonl", jsonl({"ab", "cd"}));
  const auto loader = make_loader(plain_settings("jsonl", {file}), 4, 1, byte_tokenizer(), 256);
  const std::string error = error_of([&] { loader->next(1); });
  EXPECT_THAT(error, HasSubstr(file + ":1: token 2 of the document has id 256"));
  EXPECT_THAT(error, HasSubstr("256 rows"));
}

TEST(Ids, InShardsWithoutARowInTheModelAreRefusedWithTheirPlace) {  // C8
  const TemporaryFolder folder;
  const std::string file = (folder.path / "a.tokens").string();
  ShardWriter writer(file, 400, tokenizer_fingerprint(byte_tokenizer()));
  writer.add(std::vector<int32_t>{1, 2});
  writer.add(std::vector<int32_t>{3, 320});
  writer.finish();
  const auto loader = load(plain_settings("shards", {file}), 4);
  EXPECT_THAT(error_of([&] { all_rows(*loader); }),
              HasSubstr("a.tokens:2: token 1 of the document has id 320, but the model's embedding has 320 rows"));
}

TEST(Validation, IsOnePassInOrderWithThePackingOfTraining) {
  const TemporaryFolder folder;
  DataloaderConfig training = plain_settings("jsonl", {folder.write("train.jsonl", jsonl({"zz"}))});
  training.num_epochs = 0;
  training.shuffle_window = 100;
  training.document_end = "eos";
  const ValidationConfig settings{.dataset = {"jsonl"}, .dataset_path = {folder.write("held_out.jsonl", jsonl({"abc", "def", "g"}))}};
  const auto loader = make_validation_loader(settings, training, 4, byte_tokenizer(), kRows);
  const Batch first = all_rows(*loader);
  EXPECT_EQ(text_of(ids_of(first)), "abc#def#g#");
  EXPECT_EQ(first.num_rows, 3);
  loader->rewind();
  EXPECT_EQ(all_rows(*loader), first);
}

}  // namespace
}  // namespace trine
