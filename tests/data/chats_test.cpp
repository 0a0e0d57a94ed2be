// Chats: what is supervised, that samples stay whole, and that the mask is right or the sample refused.
#include <random>

#include "data/lines.h"
#include "data/packing.h"
#include "tests/data/fixtures.h"

namespace trine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Family = ChatTemplate::Family;

OrderedSource chat_source(const std::string& file, Family family, int64_t seq_len, OrderSettings settings) {
  settings.vocab_rows = kRows;
  return {make_line_reader({file}), chat_documents(byte_tokenizer(), ChatTemplate(family), seq_len), settings};
}

std::unique_ptr<Packer> chat_packer(const std::string& file, Family family, int64_t seq_len,
                                    const OrderSettings& settings = {.num_epochs = 1}) {
  std::vector<OrderedSource> sources;
  sources.push_back(chat_source(file, family, seq_len, settings));
  return make_chat_packer(Mix(std::move(sources), {1}, false), seq_len);
}

std::vector<Row> all_rows(Packer& packer) {
  std::vector<Row> rows;
  while (std::optional<Row> row = packer.next()) rows.push_back(std::move(*row));
  return rows;
}

// The tokens that are labels, as text; every end of a turn as "#".
std::string supervised_text(const Row& row) {
  std::vector<int32_t> ids;
  std::ranges::copy_if(row.labels, std::back_inserter(ids), [](int32_t label) { return label != kIgnoreIndex; });
  return text_of(ids);
}

std::string chat(const std::vector<std::pair<std::string, std::string>>& turns) {
  nlohmann::json messages = nlohmann::json::array();
  for (const auto& [role, content] : turns) messages.push_back({{"role", role}, {"content", content}});
  return nlohmann::json{{"messages", messages}}.dump() + "\n";
}

TEST(Chats, SuperviseAssistantTurnsWithTheirEndTokenAndNothingElse) {
  const TemporaryFolder folder;
  const std::string file = folder.write("a.jsonl", chat({{"system", "be good"}, {"user", "hi"}, {"assistant", "hello"}, {"user", "more?"},
                                                         {"assistant", "no more"}}));
  const std::vector<Row> rows = all_rows(*chat_packer(file, Family::kChatml, 256));
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(supervised_text(rows[0]), "hello#no more#");
  EXPECT_EQ(rows[0].piece_starts, (std::vector<int32_t>{0, rows[0].num_tokens}));
}

// C10
TEST(Chats, WithReasoningSuperviseWhatTheTemplateKeeps) {
  const TemporaryFolder folder;
  const auto rows_of = [&](const std::string& line) {
    return all_rows(*chat_packer(folder.write("a.jsonl", line), Family::kQwen3, 512));
  };
  // Reasoning in both turns: the template drops that of the earlier one, and a mask may not slip because of it.
  const auto both = rows_of(chat({{"user", "q1"}, {"assistant", "<think>\nt1\n</think>\n\na1"}, {"user", "q2"},
                                  {"assistant", "<think>\nt2\n</think>\n\na2"}}));
  EXPECT_EQ(supervised_text(both[0]), "a1#<think>\nt2\n</think>\n\na2#");
  // Only the closing tag: still exactly one think block.
  const auto closing = rows_of(chat({{"user", "q"}, {"assistant", "t\n</think>\n\na"}}));
  EXPECT_EQ(supervised_text(closing[0]), "<think>\nt\n</think>\n\na#");
}

TEST(Chats, PackWholeSamplesFirstFit) {
  const TemporaryFolder folder;
  // ChatML: "#user\n?#\n" is 9 tokens, "#assistant\n" 11, "#\n" 2.
  const auto sample = [](int length) { return chat({{"user", "?"}, {"assistant", std::string(static_cast<size_t>(length), 'x')}}); };
  const int overhead = 9 + 11 + 2;
  std::string lines;
  for (const int length : {60, 50, 40, 50}) lines += sample(length - overhead);
  const std::string file = folder.write("a.jsonl", lines);
  const std::vector<Row> rows = all_rows(*chat_packer(file, Family::kChatml, 100));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_THAT(rows[0].piece_starts, ElementsAre(0, 60));
  EXPECT_THAT(rows[1].piece_starts, ElementsAre(0, 50));
  EXPECT_EQ(rows[0].piece_origins[1].record, 3);  // the third sample went back to the first row
  EXPECT_EQ(rows[0].num_tokens, 100);
}

TEST(Chats, NeverSuperviseAcrossSamplesOrPadding) {
  const TemporaryFolder folder;
  const std::string file = folder.write("a.jsonl", chat({{"user", "a"}, {"assistant", "b"}}) + chat({{"user", "c"}, {"assistant", "d"}}));
  const std::vector<Row> rows = all_rows(*chat_packer(file, Family::kChatml, 64));
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(supervised_text(rows[0]), "b#d#");
  EXPECT_EQ(rows[0].positions[static_cast<size_t>(rows[0].piece_starts[1])], 0);
}

TEST(Chats, LongerThanARowAreRefusedOrLeftOutAndCounted) {
  const TemporaryFolder folder;
  const std::string fits = chat({{"user", "a"}, {"assistant", "b"}}), long_one = chat({{"user", "c"}, {"assistant", std::string(99, 'd')}});
  const std::string file = folder.write("a.jsonl", fits + long_one);
  EXPECT_THAT(error_of([&] { all_rows(*chat_packer(file, Family::kChatml, 64)); }),
              testing::AllOf(HasSubstr(file + ":2: the chat has 121 tokens"), HasSubstr("training.seq_len = 64"),
                             HasSubstr("dataloader.on_long_chat = skip")));
  const auto packer = chat_packer(file, Family::kChatml, 64, {.num_epochs = 1, .skip_long = true});
  EXPECT_EQ(all_rows(*packer).size(), 1u);
  EXPECT_EQ(packer->mix().source(0).state().num_skipped, 1);
}

TEST(Chats, ThatAreBrokenAreRefusedWithTheirLine) {
  const TemporaryFolder folder;
  const std::string good = chat({{"user", "a"}, {"assistant", "b"}});
  for (const std::string bad : {R"({"messages": [)", R"({"messages": 3})", R"({"messages": [{"content": "x"}]})", "[]", R"({"text": "x"})",
                                R"({"messages": [{"role": "user", "content": "nobody answers"}]})"}) {
    const std::string file = folder.write("a.jsonl", good + bad + "\n");
    EXPECT_THAT(error_of([&] { all_rows(*chat_packer(file, Family::kChatml, 64)); }), HasSubstr(file + ":2: ")) << bad;
    EXPECT_EQ(all_rows(*chat_packer(file, Family::kChatml, 64, {.num_epochs = 1, .skip_bad = true})).size(), 1u) << bad;
  }
}

// A tokenizer that merges line breaks: a turn that begins with one has no token boundary at its start.
TEST(Chats, WithATokenOverTheEdgeOfATurnAreRefused) {
  nlohmann::json json = nlohmann::json::parse(byte_tokenizer_json());
  json["model"]["vocab"]["\u010A\u010A"] = 300;
  json["model"]["merges"] = nlohmann::json::array({"\u010A \u010A"});
  const Tokenizer tokenizer = Tokenizer::from_json(json.dump(), "", "test");
  const DocumentMaker make = chat_documents(tokenizer, ChatTemplate(Family::kChatml), 256);
  const auto record = [](const std::string& line) { return Record{.bytes = line}; };
  const std::string clean = chat({{"user", "a"}, {"assistant", "b\n\nc"}}), merged = chat({{"user", "a"}, {"assistant", "\nb"}});
  EXPECT_EQ(std::ranges::count(make(record(clean)).supervised, 1), 4);  // b, the merged line breaks, c and the end of the turn
  EXPECT_THROW(make(record(merged)), BadRecord);
}

TEST(Chats, ResumeAtEveryRowWithShuffleSkipsAndEpochs) {
  const TemporaryFolder folder;
  std::mt19937 random(11);
  std::string lines;
  for (int i = 0; i < 70; ++i) {
    lines += chat({{"user", fmt::format("{}", i)}, {"assistant", std::string(random() % 90, 'x')}});
    if (i % 9 == 4) lines += "broken\n";
  }
  const std::string file = folder.write("a.jsonl", lines);
  const OrderSettings settings{.seed = 3, .shuffle_window = 13, .num_epochs = 2, .skip_bad = true, .skip_long = true};
  const auto whole = chat_packer(file, Family::kChatml, 100, settings);
  auto parts = chat_packer(file, Family::kChatml, 100, settings);
  int rows = 0;
  for (;; ++rows) {
    const PackState state = parts->state();
    parts = chat_packer(file, Family::kChatml, 100, settings);
    parts->restore(state);
    ASSERT_EQ(parts->state(), state);
    const std::optional<Row> expected = whole->next(), found = parts->next();
    ASSERT_EQ(found.has_value(), expected.has_value()) << rows;
    if (!expected) break;
    ASSERT_EQ(found->input_ids, expected->input_ids) << rows;
    ASSERT_EQ(found->labels, expected->labels) << rows;
    ASSERT_EQ(found->piece_origins, expected->piece_origins) << rows;
  }
  EXPECT_GT(rows, 50);  // several groups of rows
}

}  // namespace
}  // namespace trine
