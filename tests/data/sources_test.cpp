// Files of every format: what is read from them, what is tolerated, and what is refused with its place.
#include <zlib.h>
#include <zstd.h>

#include "base/log.h"
#include "data/sources.h"
#include "tests/data/fixtures.h"

namespace trine {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string gzip(std::string_view text) {
  std::string out(compressBound(text.size()) + 64, '\0');
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string zstd(std::string_view text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

std::string read_text(const std::string& dataset, std::vector<std::string> paths) {
  return text_of(ids_of(all_rows(*load(plain_settings(dataset, std::move(paths)), 7))));
}

std::string read_error(const DataloaderConfig& settings) {
  return error_of([&] { all_rows(*load(settings, 7)); });
}

// D1
TEST(Jsonl, ToleratesByteOrderMarkCrlfBlankLinesEmptyTextAndAMissingLastNewline) {
  const TemporaryFolder folder;
  const std::string file = folder.write("a.jsonl",
                                        "\xEF\xBB\xBF{\"text\": \"a\"}\r\n"
                                        "\r\n  \t\n"
                                        "{\"text\": \"\"}\n"
                                        "{\"id\": 3, \"text\": \"b\"}\r\n"
                                        "\n"
                                        "{\"text\": \"c\"}");
  EXPECT_EQ(read_text("jsonl", {file}), "a|b|c|");
  const auto loader = load(plain_settings("jsonl", {file}), 2);
  const Batch batch = all_rows(*loader);
  EXPECT_EQ(loader->describe(batch.piece_origins[1][0]), file + ":5");
  EXPECT_EQ(loader->describe(batch.piece_origins[2][0]), file + ":7");
  EXPECT_EQ(loader->num_skipped(), 0);
}

struct BadLine {
  std::string line, message;
};

// D1
TEST(Jsonl, RefusesABadRecordWithFileAndLine) {
  const TemporaryFolder folder;
  const std::vector<BadLine> cases = {
      {R"({"text": "b")", "not valid JSON"},
      {R"({"text": "b"} trailing)", "not valid JSON"},
      {"{\"text\": \"\xFF\"}", "not valid JSON"},
      {R"({"text": "\ud800"})", "not valid JSON"},
      {R"({"txet": "b"})", R"(no field "text" (dataloader.text_field). Did you mean "txet"?)"},
      {R"({"text": 7})", R"(field "text" is a number, expected a string)"},
      {R"({"text": null})", R"(field "text" is null, expected a string)"},
      {R"({"text": ["b"]})", R"(field "text" is an array, expected a string)"},
      {R"({"text": "b", "text": "c"})", R"(field "text" is given twice)"},
      {R"(["b"])", "expected a JSON object, found an array"},
      {R"("b")", "expected a JSON object, found a string"},
      {std::string(100'000, '['), "not valid JSON"},
  };
  for (const BadLine& bad : cases) {
    const std::string file = folder.write("a.jsonl", "\n" + jsonl({"a"}) + bad.line + "\n" + jsonl({"c"}));
    EXPECT_THAT(read_error(plain_settings("jsonl", {file})),
                AllOf(HasSubstr(file + ":3: "), HasSubstr(bad.message), HasSubstr("dataloader.on_bad_record = skip")))
        << bad.line.substr(0, 80);
  }
}

// D1
TEST(Jsonl, LeavesBadRecordsOutAndCountsThemIfAsked) {
  const TemporaryFolder folder;
  const std::string lines = jsonl({"a"}) + "{\"text\": \n{\"txet\": \"\"}\n{\"text\": 1}\n" + jsonl({"b"}) + "no";
  DataloaderConfig settings = plain_settings("jsonl", {folder.write("a.jsonl", lines)});
  settings.on_bad_record = "skip";
  const auto loader = load(settings, 2);
  EXPECT_EQ(text_of(loader->next(1)->input_ids), "a|");
  EXPECT_EQ(loader->num_skipped(), 0);  // what the next row needs is not read yet
  EXPECT_EQ(text_of(loader->next(1)->input_ids), "b|");
  EXPECT_EQ(loader->num_skipped(), 3);
  EXPECT_EQ(loader->next(1), std::nullopt);
}

TEST(Jsonl, ReadsTheFieldThatIsAskedFor) {
  const TemporaryFolder folder;
  DataloaderConfig settings = plain_settings("jsonl", {folder.write("a.jsonl", R"({"text": "no", "body": "yes", "n": {"body": "no"}})")});
  settings.text_field = "body";
  EXPECT_EQ(text_of(ids_of(all_rows(*load(settings, 8)))), "yes|");
}

TEST(Jsonl, ReadsCompressedFilesAsPlainOnes) {
  const TemporaryFolder folder;
  std::vector<std::string> texts;
  for (int i = 0; i < 3000; ++i) texts.push_back(fmt::format("document {} {}", i, std::string(static_cast<size_t>(i * 7 % 1000), 'x')));
  const std::string lines = jsonl(texts), half = jsonl({"tail"});
  const std::string plain = read_text("jsonl", {folder.write("p.jsonl", lines + half)});
  EXPECT_EQ(read_text("jsonl", {folder.write("a.jsonl.gz", gzip(lines) + gzip(half))}), plain);  // two members
  EXPECT_EQ(read_text("jsonl", {folder.write("a.jsonl.zst", zstd(lines) + zstd(half))}), plain);  // two frames
}

TEST(Jsonl, RefusesACompressedFileThatIsCutShortOrDamaged) {
  const TemporaryFolder folder;
  const std::string lines = jsonl({"some text", "some more text", std::string(100, 'q')});
  for (const auto& [name, whole] : {std::pair{"a.jsonl.gz", gzip(lines)}, {"a.jsonl.zst", zstd(lines)}}) {
    for (const std::string& bytes : {whole.substr(0, whole.size() - 3), whole.substr(0, 9), std::string("plain text"), whole + "x"}) {
      const std::string file = folder.write(name, bytes);
      const std::string error = read_error(plain_settings("jsonl", {file}));
      EXPECT_THAT(error, HasSubstr(file + ": the compressed file is damaged or cut short")) << bytes.size();
    }
  }
}

TEST(Text, TakesEachFileOfAFolderAsADocumentInOrderOfName) {
  const TemporaryFolder folder;
  folder.write("in/b.txt", "\xEF\xBB\xBFtwo\n");
  folder.write("in/a.txt", "one");
  folder.write("in/deeper/c.txt", "three");
  folder.write("in/empty.txt", "");
  EXPECT_EQ(read_text("text", {(folder.path / "in").string()}), "one|two\n|three|");
}

TEST(Text, MayBeCompressed) {
  const TemporaryFolder folder;
  folder.write("in/a.txt.gz", gzip("\xEF\xBB\xBFone"));
  folder.write("in/b.txt.zst", zstd("two"));
  folder.write("in/c.txt.zst", zstd(""));
  EXPECT_EQ(read_text("text", {(folder.path / "in").string()}), "one|two|");
}

TEST(Text, OfMoreThanAPageIsReadWhole) {
  const TemporaryFolder folder;
  const std::string text(3 << 20, 'x');
  EXPECT_EQ(all_rows(*load(plain_settings("text", {folder.write("a.txt", text)}), 1024)).num_tokens, (3 << 20) + 1);
}

TEST(Sources, OfAFolderAreItsFilesOfTheFormatAndTheOthersAreNamed) {
  const TemporaryFolder folder;
  folder.write("in/2.jsonl", jsonl({"b"}));
  folder.write("in/1.jsonl.gz", gzip(jsonl({"a"})));
  folder.write("in/README", "not data");
  testing::internal::CaptureStderr();
  EXPECT_EQ(read_text("jsonl", {(folder.path / "in").string()}), "a|b|");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("1 of its files are not jsonl files and are left out, README among them"));
}

TEST(Sources, ThatAreNotThereAreNamed) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path / "empty");
  EXPECT_THAT(read_error(plain_settings("jsonl", {"no/such.jsonl"})), HasSubstr("no/such.jsonl: there is no such file"));
  EXPECT_THAT(read_error(plain_settings("jsonl", {(folder.path / "empty").string()})), HasSubstr("no jsonl file in this folder"));
  EXPECT_THAT(read_error(plain_settings("jsnol", {"a"})), HasSubstr("no dataset \"jsnol\". Did you mean \"jsonl\"?"));
  EXPECT_THAT(read_error(plain_settings("jsonl", {})), HasSubstr("needs a dataset_path"));
}

TEST(Sources, C4TestNeedsItsFolderAndNamesTheSubstitute) {
  const TemporaryFolder folder;
  EXPECT_THAT(read_error(plain_settings("c4_test", {})), HasSubstr("The substitute that comes with Trine is the dataset sample"));
  EXPECT_THAT(read_error(plain_settings("c4_test", {folder.path.string()})), HasSubstr("holds no data.json"));
  folder.write("data.json", jsonl({"c4"}));
  EXPECT_EQ(read_text("c4_test", {folder.path.string()}), "c4|");
}

TEST(Sources, WithoutAnyTextAreAnErrorNotAnEndlessLoop) {  // D8, the part of one rank
  const TemporaryFolder folder;
  for (const std::string& content : {std::string(), std::string("\n\n"), jsonl({"", ""})}) {
    DataloaderConfig settings = plain_settings("jsonl", {folder.write("a.jsonl", content)});
    settings.num_epochs = 0;
    EXPECT_THAT(read_error(settings), HasSubstr("a.jsonl: no text to train on"));
  }
  DataloaderConfig settings = plain_settings("jsonl", {folder.write("a.jsonl", "bad\nworse\n")});
  settings.on_bad_record = "skip";
  settings.num_epochs = 0;
  EXPECT_THAT(read_error(settings), HasSubstr("2 records left out"));
}

TEST(Sources, OfSomeFilesOneEmptyGoOnWithTheNext) {
  const TemporaryFolder folder;
  folder.write("in/1.jsonl", "");
  folder.write("in/2.jsonl", jsonl({"b"}));
  folder.write("in/3.jsonl", "\n");
  EXPECT_EQ(read_text("jsonl", {(folder.path / "in").string()}), "b|");
}

TEST(Mix, KeepsTheShareOfTokensThatWeightsAskFor) {
  const TemporaryFolder folder;
  const std::string a = folder.write("a.jsonl", jsonl({std::string(9, 'a')})), b = folder.write("b.jsonl", jsonl({std::string(19, 'b')}));
  DataloaderConfig settings = plain_settings("jsonl", {a, b});
  settings.num_epochs = 0;
  settings.weights = {3, 1};
  const auto loader = load(settings, 100);
  const std::string text = text_of(loader->next(100)->input_ids);
  EXPECT_NEAR(static_cast<double>(std::ranges::count(text, 'a')) / 9000.0, 0.75, 0.005);
}

TEST(Mix, BySizeReadsEveryDocumentOnceInAnEpoch) {
  const TemporaryFolder folder;
  std::vector<std::string> few, many;
  for (int i = 0; i < 5; ++i) few.push_back(fmt::format("few{}", i));
  for (int i = 0; i < 50; ++i) many.push_back(fmt::format("many{}", i));
  const auto loader = load(plain_settings("jsonl", {folder.write("few.jsonl", jsonl(few)), folder.write("many.jsonl", jsonl(many))}), 16);
  const std::string text = text_of(ids_of(all_rows(*loader)));
  for (const std::string& document : few) EXPECT_THAT(text, HasSubstr(document + "|"));
  for (const std::string& document : many) EXPECT_THAT(text, HasSubstr(document + "|"));
  EXPECT_EQ(std::ranges::count(text, '|'), 55);
  EXPECT_LT(text.find("few1"), text.find("many20"));  // interleaved, not one after the other
}

TEST(Mix, WithGivenWeightsEndsWhenAShareCannotBeKept) {
  const TemporaryFolder folder;
  const std::string a = folder.write("a.jsonl", jsonl({"a1", "a2"})), b = folder.write("b.jsonl", jsonl({"b1", "b2", "b3", "b4"}));
  DataloaderConfig settings = plain_settings("jsonl", {a, b});
  settings.weights = {1, 1};
  EXPECT_EQ(text_of(ids_of(all_rows(*load(settings, 8)))), "a1|b1|a2|b2|");
}

TEST(Mix, OfChatsAndTextsIsRefused) {
  const TemporaryFolder folder;
  DataloaderConfig settings = plain_settings("jsonl", {folder.write("a.jsonl", jsonl({"a"})), folder.write("b.jsonl", jsonl({"b"}))});
  settings.dataset = {"jsonl", "chat"};
  EXPECT_THAT(read_error(settings), HasSubstr("chats and texts cannot be mixed"));
}

TEST(Loader, SaysInItsSummaryWhatIsRead) {
  const TemporaryFolder folder;
  DataloaderConfig settings = plain_settings("jsonl", {folder.write("a.jsonl", jsonl({"a"})), folder.write("b.jsonl", jsonl({"b"}))});
  settings.weights = {3, 1};
  EXPECT_THAT(load(settings, 4)->summary(), AllOf(HasSubstr("a.jsonl, 13 B, 75.0% of the tokens\n"), HasSubstr("b.jsonl, 13 B, 25.0%")));
}

}  // namespace
}  // namespace trine
