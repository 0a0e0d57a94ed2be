#include "text/bpe.h"

#include <gtest/gtest.h>

#include <map>

#include "base/random.h"
#include "tests/text/tiny_tokenizer.h"

namespace trine {
namespace {

// BPE as its definition goes: again and again the leftmost pair of the lowest rank.
std::vector<int32_t> merged_slowly(const std::vector<BpeModel::Merge>& merges, std::vector<int32_t> ids) {
  std::map<std::pair<int32_t, int32_t>, std::pair<size_t, int32_t>> ranks;
  for (size_t i = 0; i < merges.size(); ++i) ranks[{merges[i].left, merges[i].right}] = {i, merges[i].merged};
  for (;;) {
    auto best = ranks.end();
    size_t place = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto found = ranks.find({ids[i], ids[i + 1]});
      if (found != ranks.end() && (best == ranks.end() || found->second.first < best->second.first)) best = found, place = i;
    }
    if (best == ranks.end()) return ids;
    ids[place] = best->second.second;
    ids.erase(ids.begin() + static_cast<int64_t>(place) + 1);
  }
}

struct RandomModel {
  std::vector<std::string> tokens;
  std::vector<BpeModel::Merge> merges;
};

// Bytes, and merges of random tokens over a few characters, so that merges compete and overlap.
RandomModel random_model(const CounterRandom& random, const std::vector<std::string>& characters) {
  RandomModel model;
  std::map<std::string, int32_t> ids;
  for (int byte = 0; byte < 256; ++byte) {
    model.tokens.emplace_back(1, static_cast<char>(byte));
    ids[model.tokens.back()] = byte;
  }
  std::vector<int32_t> usable;
  for (const std::string& character : characters) {
    for (const char byte : character) usable.push_back(static_cast<unsigned char>(byte));
  }
  std::map<std::pair<int32_t, int32_t>, bool> seen;
  for (uint64_t draw = 0; model.merges.size() < 150; draw += 2) {
    const int32_t left = usable[random.below(draw, usable.size())], right = usable[random.below(draw + 1, usable.size())];
    if (model.tokens[left].size() + model.tokens[right].size() > 9 || seen[{left, right}]) continue;
    seen[{left, right}] = true;
    const std::string joined = model.tokens[left] + model.tokens[right];
    const auto [known, is_new] = ids.emplace(joined, static_cast<int32_t>(model.tokens.size()));
    if (is_new) {
      model.tokens.push_back(joined);
      usable.push_back(known->second);
    }
    model.merges.push_back({left, right, known->second});
  }
  return model;
}

std::vector<int32_t> encoded(const BpeModel& bpe, std::string_view piece, BpeModel::Workspace& work) {
  std::vector<int32_t> ids;
  bpe.encode({&piece, 1}, piece.data() + piece.size(), work, ids);
  return ids;
}

std::vector<int32_t> bytes_of(std::string_view text) {
  std::vector<int32_t> ids;
  for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
  return ids;
}

TEST(Bpe, EqualsTheDefinitionOnPiecesOfAnyLengthAndScript) {
  const std::vector<std::string> characters = {"a", "b", "c", "é", "ü", "你", "好", "界", "か", "😀", "😁"};
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const CounterRandom random(seed, "bpe");
    const RandomModel model = random_model(random, characters);
    const BpeModel bpe(model.tokens, model.merges, {});
    BpeModel::Workspace work;
    for (uint64_t trial = 0; trial < 60; ++trial) {
      const size_t length = 1 + random.below(10'000 + trial, trial % 3 == 0 ? 150 : 12);
      const bool ascii = trial % 4 == 1;
      std::string piece;
      for (size_t i = 0; i < length; ++i) piece += characters[random.below(20'000 + 200 * trial + i, ascii ? 3 : characters.size())];
      const std::vector<int32_t> ids = encoded(bpe, piece, work);
      const std::vector<int32_t> again = encoded(bpe, piece, work);  // from the cache
      ASSERT_EQ(ids, merged_slowly(model.merges, bytes_of(piece))) << piece;
      ASSERT_EQ(again, ids) << piece;
    }
  }
}

TEST(Bpe, DroppedBytesLetTheirNeighboursMerge) {
  const std::vector<std::string> tokens = {"a", "b", "\xE4", "\xBD", "\xA0", "\xE4\xBD", "你", "ab", "a你"};
  const std::vector<BpeModel::Merge> merges = {{0, 1, 7}, {2, 3, 5}, {5, 4, 6}, {0, 6, 8}};
  const BpeModel bpe(tokens, merges, {});
  BpeModel::Workspace work;
  EXPECT_EQ(encoded(bpe, "a\x04" "b" "a\x04你", work), (std::vector<int32_t>{7, 8}));
}

TEST(Bpe, AnUnknownTokenStandsForMissingBytes) {
  const std::vector<std::string> tokens = {"<unk>", "a"};
  const BpeModel bpe(tokens, {}, {.unknown = 0});
  BpeModel::Workspace work;
  EXPECT_EQ(encoded(bpe, "abba", work), (std::vector<int32_t>{1, 0, 0, 1}));
}

TEST(Bpe, WholePiecesComeFirstOnlyIfAskedFor) {
  // "abc" is a token that no merge order reaches from "abc": b+c goes first and a+bc is no merge.
  const std::vector<std::string> tokens = {"a", "b", "c", "ab", "bc", "abc", "你"};
  const std::vector<BpeModel::Merge> merges = {{1, 2, 4}, {0, 1, 3}, {3, 2, 5}};
  for (const bool whole : {false, true}) {
    const BpeModel bpe(tokens, merges, {.unknown = BpeModel::kNone, .whole_pieces_first = whole});
    BpeModel::Workspace work;
    for (int times = 0; times < 2; ++times) {
      EXPECT_EQ(encoded(bpe, "abc", work), whole ? std::vector<int32_t>{5} : (std::vector<int32_t>{0, 4}));
    }
  }
}

// C6: quadratic work would take hours here.
TEST(Bpe, LongPiecesTakeNoQuadraticTime) {
  const Tokenizer tokenizer = tiny_tokenizer();
  const std::string letters(400'000, 'a');
  const std::vector<int32_t> ids = tokenizer.encode(letters);
  EXPECT_EQ(ids.size(), 100'000u);
  EXPECT_EQ(tokenizer.encode(std::string(400'000, '-')).size(), 400'000u);
  const CounterRandom random(1, "letters");
  std::string mixed;
  for (uint64_t i = 0; i < 400'000; ++i) mixed += "aethlo"[random.below(i, 6)];
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(mixed)), mixed);
  std::string chinese;
  for (int i = 0; i < 130'000; ++i) chinese += i % 3 ? "你" : "好";
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(chinese)), chinese);
  std::string marks = "a";
  for (int i = 0; i < 200'000; ++i) marks += i % 2 ? "\u0301" : "\u0323";
  EXPECT_GT(tokenizer.encode(marks).size(), 0u);
  EXPECT_GT(tokenizer.encode(std::string(400'000, ' ')).size(), 0u);
}

}  // namespace
}  // namespace trine
