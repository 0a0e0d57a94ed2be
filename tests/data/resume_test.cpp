// Resuming: the rows after a restored place are those that an uninterrupted run would have given, whatever the settings. Prefetch.
#include <zlib.h>

#include <random>

#include "base/log.h"
#include "tests/data/fixtures.h"

namespace trine {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::vector<std::string> numbered(int count, const std::string& prefix = "doc") {
  std::vector<std::string> texts;
  for (int i = 0; i < count; ++i) texts.push_back(fmt::format("{}{}{}", prefix, i, std::string(static_cast<size_t>(i * 37 % 23), '.')));
  return texts;
}

// The numbers of the documents' records in the order of the stream.
std::vector<int64_t> records_of(const Batch& batch) {
  std::vector<int64_t> records;
  for (const auto& row : batch.piece_origins) {
    for (const PieceOrigin& origin : row) {
      if (origin.document >= 0 && origin.token_offset == 0) records.push_back(origin.record);
    }
  }
  return records;
}

TEST(Shuffle, ReadsEveryDocumentOnceInEachEpochAndInAnotherOrder) {
  const TemporaryFolder folder;
  DataloaderConfig settings = plain_settings("jsonl", {folder.write("a.jsonl", jsonl(numbered(50)))});
  settings.num_epochs = 2;
  settings.shuffle_window = 100;
  const std::vector<int64_t> order = records_of(all_rows(*load(settings, 16)));
  ASSERT_EQ(order.size(), 100u);
  std::vector<int64_t> first(order.begin(), order.begin() + 50), second(order.begin() + 50, order.end());
  EXPECT_NE(first, second);
  EXPECT_FALSE(std::ranges::is_sorted(first));
  std::ranges::sort(first);
  std::ranges::sort(second);
  EXPECT_EQ(first, second);
  EXPECT_EQ(first.front(), 1);
  EXPECT_EQ(first.back(), 50);
}

TEST(Shuffle, MovesADocumentOnlyWithinItsWindow) {
  const TemporaryFolder folder;
  DataloaderConfig settings = plain_settings("jsonl", {folder.write("a.jsonl", jsonl(numbered(50)))});
  settings.shuffle_window = 8;
  const std::vector<int64_t> order = records_of(all_rows(*load(settings, 16)));
  for (size_t i = 0; i < order.size(); ++i) EXPECT_EQ((order[i] - 1) / 8, static_cast<int64_t>(i) / 8);
  EXPECT_FALSE(std::ranges::is_sorted(order));
}

TEST(Shuffle, DependsOnTheSeedAndOnNothingElse) {
  const TemporaryFolder folder;
  DataloaderConfig settings = plain_settings("jsonl", {folder.write("a.jsonl", jsonl(numbered(50)))});
  settings.shuffle_window = 20;
  EXPECT_EQ(all_rows(*load(settings, 16, 5)), all_rows(*load(settings, 16, 5)));
  EXPECT_NE(all_rows(*load(settings, 16, 5)), all_rows(*load(settings, 16, 6)));
}

// D5: 12 samples per epoch; 20 steps at once, 10 + 10, and 7 + 7 + 6.
TEST(Resume, GivesTheSameSamplesAcrossAnEpochsEndAndForASecondTime) {
  const TemporaryFolder folder;
  DataloaderConfig settings = plain_settings("jsonl", {folder.write("a.jsonl", jsonl(numbered(12)))});
  settings.num_epochs = 0;
  settings.shuffle_window = 5;
  settings.prefetch = 2;
  const auto run = [&](const std::vector<int>& parts) {
    std::vector<Batch> batches;
    std::string saved;
    for (const int steps : parts) {
      const auto loader = load(settings, 16);
      if (!saved.empty()) loader->restore(Json::parse(saved));
      for (int i = 0; i < steps; ++i) batches.push_back(*loader->next(2));
      saved = loader->state().dump();
    }
    return batches;
  };
  const std::vector<Batch> whole = run({20});
  EXPECT_GT(whole.back().piece_origins.back().back().document, 24);  // well into a third epoch
  EXPECT_EQ(run({10, 10}), whole);
  EXPECT_EQ(run({7, 7, 6}), whole);
}

// Any interruption pattern over random data and settings gives the uninterrupted stream.
TEST(Resume, AtRandomPlacesWithRandomSettingsGivesTheUninterruptedStream) {
  const TemporaryFolder folder;
  log::set_level(log::Level::kError);  // thousands of records are left out
  std::mt19937 random(7);
  const auto below = [&](int bound) { return static_cast<int>(random() % static_cast<unsigned>(bound)); };
  for (int trial = 0; trial < 150; ++trial) {
    DataloaderConfig settings = plain_settings("jsonl", {});
    const int num_sources = 1 + below(3);
    for (int source = 0; source < num_sources; ++source) {
      std::string lines;
      const int count = 1 + below(40);
      for (int i = 0; i < count; ++i) {
        if (i > 0 && below(8) == 0) lines += below(2) ? "broken\n" : "{\"text\": \"\"}\n";
        lines += jsonl({fmt::format("{}{}", static_cast<char>('a' + source), std::string(static_cast<size_t>(below(60)), 'x'))});
        if (below(10) == 0) lines += "\r\n";
      }
      settings.dataset_path.push_back(folder.write(fmt::format("{}/{}.jsonl", trial, source), lines));
      if (num_sources > 1 && trial % 2) settings.weights.push_back(1 + below(4));
    }
    settings.on_bad_record = "skip";
    settings.num_epochs = below(4);
    settings.shuffle_window = below(3) * below(20);
    settings.prefetch = below(3);
    const int64_t seq_len = 1 + below(50), rows = 1 + below(4), steps = 40;
    const uint64_t seed = random();

    const auto whole = load(settings, seq_len, seed);
    auto parts = load(settings, seq_len, seed);
    for (int64_t step = 0; step < steps; ++step) {
      if (below(5) == 0) {
        const std::string state = parts->state().dump();
        EXPECT_LT(state.size(), 4000u);
        parts = load(settings, seq_len, seed);
        if (below(3) == 0) parts->next(1 + below(9));  // restoring into a loader that has been used
        parts->restore(Json::parse(state));
        ASSERT_EQ(parts->state().dump(), state);
      }
      const std::optional<Batch> expected = whole->next(rows);
      ASSERT_EQ(parts->next(rows), expected) << "trial " << trial << ", step " << step;
      ASSERT_EQ(parts->state(), whole->state());
      if (!expected) break;
    }
  }
  log::set_level(log::Level::kInfo);
}

TEST(Resume, OfTheStateDescribesWhatWasHandedOutNotWhatWasPreparedAhead) {
  const TemporaryFolder folder;
  DataloaderConfig settings = plain_settings("jsonl", {folder.write("a.jsonl", jsonl(numbered(200)))});
  const auto plain = load(settings, 16);
  settings.prefetch = 50;
  const auto ahead = load(settings, 16);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(ahead->next(3), plain->next(3));
    EXPECT_EQ(ahead->state(), plain->state());
  }
}

TEST(Resume, OnOtherDataOrSettingsIsRefusedNamingOldAndNew) {
  const TemporaryFolder folder;
  DataloaderConfig settings = plain_settings("jsonl", {folder.write("a.jsonl", jsonl(numbered(20)))});
  const auto loader = load(settings, 16);
  loader->next(3);
  const Json state = loader->state();
  EXPECT_THAT(error_of([&] { load(settings, 32)->restore(state); }), HasSubstr("training.seq_len: was 16, is 32"));
  EXPECT_THAT(error_of([&] { load(settings, 16, 9)->restore(state); }), HasSubstr("debug.seed: was 1, is 9"));
  DataloaderConfig shuffled = settings;
  shuffled.shuffle_window = 10;
  EXPECT_THAT(error_of([&] { load(shuffled, 16)->restore(state); }), HasSubstr("dataloader.shuffle_window: was 0, is 10"));
  DataloaderConfig longer = settings;
  longer.dataset_path = {folder.write("other/a.jsonl", jsonl(numbered(21)))};
  EXPECT_THAT(error_of([&] { load(longer, 16)->restore(state); }), AllOf(HasSubstr("source 1: was"), Not(HasSubstr("seq_len"))));
}

TEST(Resume, FindsTheSameDataInAnotherFolder) {
  const TemporaryFolder folder;
  const auto before = load(plain_settings("jsonl", {folder.write("a.jsonl", jsonl(numbered(20)))}), 16);
  before->next(3);
  const auto after = load(plain_settings("jsonl", {folder.write("moved/a.jsonl", jsonl(numbered(20)))}), 16);
  after->restore(before->state());
  EXPECT_EQ(after->next(3), before->next(3));
}

TEST(Resume, RefusesADamagedOrNewerState) {
  const TemporaryFolder folder;
  const auto loader = load(plain_settings("jsonl", {folder.write("a.jsonl", jsonl(numbered(20)))}), 16);
  Json state = loader->state();
  state["version"] = 2;
  EXPECT_THAT(error_of([&] { loader->restore(state); }), HasSubstr("version 2; this program reads up to 1"));
  state = loader->state();
  state.erase("sources");
  EXPECT_THAT(error_of([&] { loader->restore(state); }), HasSubstr("damaged"));
  state = loader->state();
  state["sources"] = Json::array();
  EXPECT_THAT(error_of([&] { loader->restore(state); }), HasSubstr("damaged"));
  EXPECT_THAT(error_of([&] { loader->restore(Json("x")); }), HasSubstr("damaged"));
}

TEST(Resume, WorksInCompressedFilesTextFilesAndShards) {
  const TemporaryFolder folder;
  const std::vector<std::string> texts = numbered(40);
  const std::string lines = jsonl(texts);
  gzFile gz = gzopen((folder.path / "a.jsonl.gz").c_str(), "wb");
  gzwrite(gz, lines.data(), static_cast<unsigned>(lines.size()));
  gzclose(gz);
  for (size_t i = 0; i < texts.size(); ++i) folder.write(fmt::format("text/{:02}.txt", i), texts[i]);
  for (size_t file = 0; file < 4; ++file) {
    std::filesystem::create_directories(folder.path / "shards");
    ShardWriter writer(folder.path / fmt::format("shards/{}.tokens", file), 259, tokenizer_fingerprint(byte_tokenizer()));
    for (size_t i = file * 10; i < file * 10 + 10; ++i) writer.add(byte_tokenizer().encode(texts[i]));
    writer.finish();
  }
  const auto rows_in_parts = [&](const std::string& dataset, const std::string& path, int64_t part) {
    DataloaderConfig settings = plain_settings(dataset, {(folder.path / path).string()});
    settings.shuffle_window = 7;
    settings.num_epochs = 2;
    std::vector<int32_t> ids;
    Json state;
    for (;;) {
      const auto loader = load(settings, 16);
      if (!state.is_null()) loader->restore(state);
      const auto batch = loader->next(part);
      if (!batch) return ids;
      ids.insert(ids.end(), batch->input_ids.begin(), batch->input_ids.end());
      state = loader->state();
    }
  };
  const std::vector<int32_t> expected = rows_in_parts("jsonl", "a.jsonl.gz", 1000);
  for (const auto& [dataset, path] : {std::pair{"jsonl", "a.jsonl.gz"}, {"text", "text"}, {"shards", "shards"}}) {
    EXPECT_EQ(rows_in_parts(dataset, path, 7), expected) << dataset;
  }
}

// A place far into a file is reached without reading what lies before it: the line there may even be broken.
TEST(Resume, DoesNotReadAgainWhatLiesBeforeTheWindow) {
  const TemporaryFolder folder;
  const std::string good = jsonl(numbered(300));
  const DataloaderConfig settings = plain_settings("jsonl", {folder.write("a.jsonl", good)});
  const auto before = load(settings, 16);
  before->next(100);
  std::string damaged = good;
  damaged.replace(0, 3, "bad");
  folder.write("a.jsonl", damaged);
  const auto after = load(settings, 16);
  after->restore(before->state());
  EXPECT_EQ(after->next(50), before->next(50));
}

TEST(Prefetch, HandsOutTheRowsBeforeABadRecordAndThenItsError) {
  const TemporaryFolder folder;
  const std::string file = folder.write("a.jsonl", jsonl({"abc", "def"}) + "broken\n" + jsonl({"ghi"}));
  for (const int64_t steps : {0, 1, 8}) {
    DataloaderConfig settings = plain_settings("jsonl", {file});
    settings.prefetch = steps;
    const auto loader = load(settings, 4);
    EXPECT_EQ(text_of(loader->next(1)->input_ids), "abc|");
    EXPECT_EQ(text_of(loader->next(1)->input_ids), "def|");
    const Json state = loader->state();
    for (int again = 0; again < 2; ++again) EXPECT_THAT(error_of([&] { loader->next(1); }), HasSubstr(file + ":3: not valid JSON"));
    EXPECT_EQ(loader->state(), state);  // the place is still good for a checkpoint
  }
}

TEST(Prefetch, EndsCleanlyWhileTheThreadIsAtWork) {
  const TemporaryFolder folder;
  DataloaderConfig settings = plain_settings("jsonl", {folder.write("a.jsonl", jsonl(numbered(500)))});
  settings.num_epochs = 0;
  settings.prefetch = 1000;
  for (int i = 0; i < 20; ++i) {
    const auto loader = load(settings, 8);
    EXPECT_TRUE(loader->next(1 + i).has_value());
  }
}

TEST(Prefetch, CountsTheTimeThatNextWaited) {
  const TemporaryFolder folder;
  const auto loader = load(plain_settings("jsonl", {folder.write("a.jsonl", jsonl(numbered(100)))}), 8);
  EXPECT_EQ(loader->wait_seconds(), 0);
  loader->next(20);
  EXPECT_GT(loader->wait_seconds(), 0);
}

}  // namespace
}  // namespace trine
