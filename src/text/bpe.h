// The merging step of byte-level BPE: one piece of text to token ids, by merge ranks.
//
// Most pieces were seen before, and the rest is dominated by look-ups of pairs. So, without changing any result:
//   - a bounded cache remembers the ids of short pieces;
//   - a piece with characters beyond ASCII (a Chinese sentence is one piece) is cut wherever no merge can reach across, which turns a
//     long rare piece into short frequent ones, and where merges join only whole characters, characters are merged beforehand;
//   - the merge loop looks at all pairs of a short piece and keeps a heap of pairs for a long one: no input takes quadratic time.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/word_cache.h"

namespace trine {

// The vocabulary and merges of a tokenizer.json, in bytes. Immutable once built.
class BpeModel {
 public:
  static constexpr int32_t kNone = -1;
  static constexpr int64_t kMostIds = int64_t{1} << 20;  // ids and ranks are below this; tables have a row per id

  struct Merge {
    int32_t left, right, merged;
  };
  struct Settings {
    int32_t unknown = kNone;          // stands for a byte that has no token; kNone: such bytes are dropped
    bool whole_pieces_first = false;  // a piece that is itself a token is not merged ("ignore_merges")
  };

  // What one encoding thread keeps between pieces.
  struct Workspace {
    WordCache words;
    BorderCache borders;
    CharacterCache characters;
    std::vector<int32_t> symbols;         // of the unit that is to be merged
    std::vector<int32_t> next, previous;  // the symbols of a long one as a list,
    std::vector<uint64_t> heap;           // and its pairs by rank and place
  };

  // `token_bytes[id]` is what a token stands for, empty for an id without one. `merges` come in order of rank; a later merge of the same
  // pair replaces an earlier one.
  BpeModel(std::span<const std::string> token_bytes, std::span<const Merge> merges, const Settings& settings);
  BpeModel(const BpeModel&) = delete;

  // Appends the ids of every piece, each of at least one byte, to `out`. The bytes up to `readable_end` may be read.
  void encode(std::span<const std::string_view> pieces, const char* readable_end, Workspace& work, std::vector<int32_t>& out) const;
  static constexpr size_t kPiecesAtOnce = 16;  // as many as are looked up side by side

  std::optional<int32_t> id_of_bytes(std::string_view bytes) const;
  bool has_byte(unsigned char byte) const { return byte_ids_[byte] != kNone; }

 private:
  struct Pair {
    int32_t left = kNone, right = kNone, rank = 0, merged = kNone;
  };

  void add_pair(const Pair& pair);
  void note_border(std::string_view left, std::string_view right);
  const Pair& find_pair(int32_t left, int32_t right) const;
  Border border_of(std::string_view left, std::string_view right) const;
  Border border_at(const char* p, const char* left, char32_t left_char, Workspace& work) const;

  void encode_at_once(std::span<const std::string_view> pieces, const char* readable_end, Workspace& work, std::vector<int32_t>& out) const;
  void encode_new(std::string_view piece, const char* readable_end, Workspace& work, std::vector<int32_t>& out) const;
  void add_bytes(std::string_view bytes, std::vector<int32_t>& symbols) const;
  void add_character(std::string_view bytes, char32_t c, Workspace& work) const;
  void encode_unit(std::string_view unit, const char* readable_end, Workspace& work, std::vector<int32_t>& out) const;
  void merge(Workspace& work, std::vector<int32_t>& out) const;
  size_t merge_short(std::span<int32_t> ids, int32_t* highest_rank) const;
  void merge_long(Workspace& work) const;

  Settings settings_;
  std::array<int32_t, 256> byte_ids_;
  bool has_all_bytes_ = true;
  std::string blob_;  // the bytes of all tokens
  std::unordered_map<std::string_view, int32_t> ids_by_bytes_;
  std::vector<Pair> pairs_;             // open addressing
  int pair_shift_ = 0;                  // of a hash, to an index of pairs_
  std::vector<uint64_t> pair_filter_;   // a bit for every hash of a pair: most look-ups end here, in near memory
  std::vector<int32_t> first_uses_;  // by id: the lowest rank of a merge that takes the token as a part
  std::vector<uint64_t> whole_borders_, inside_borders_;  // sorted; see note_border
};

}  // namespace trine
