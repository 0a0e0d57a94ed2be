// The merging step of byte-level BPE: one piece of text to token ids, by merge ranks.
//
// Most pieces were seen before, and the rest is dominated by look-ups of pairs. So, without changing any result:
//   - a bounded cache remembers the ids of short pieces;
//   - a piece with characters beyond ASCII (a Chinese sentence is one piece) is cut wherever no merge can reach across, which turns a
//     long rare piece into short frequent ones;
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
  static constexpr int64_t kMostIds = int64_t{1} << 21;  // ids and ranks are below this: three of them fit one 64-bit word

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
    // A long piece's symbols as a list, and its pairs by rank and place.
    std::vector<int32_t> ids, next, previous;
    std::vector<uint64_t> heap;
  };

  // `token_bytes[id]` is what a token stands for, empty for an id without one. `merges` come in order of rank; a later merge of the same
  // pair replaces an earlier one.
  BpeModel(std::span<const std::string> token_bytes, std::span<const Merge> merges, const Settings& settings);
  BpeModel(const BpeModel&) = delete;

  // Appends the ids of `piece`, at least one byte, to `out`. The bytes up to `readable_end` may be read.
  void encode(std::string_view piece, const char* readable_end, Workspace& work, std::vector<int32_t>& out) const;

  std::optional<int32_t> id_of_bytes(std::string_view bytes) const;
  bool has_byte(unsigned char byte) const { return byte_ids_[byte] != kNone; }

 private:
  void add_pair(int32_t left, int32_t right, int32_t rank);
  void note_border(std::string_view left, std::string_view right);
  int32_t rank_of(int32_t left, int32_t right) const;
  bool merges_reach_across(std::string_view left, std::string_view right) const;

  void encode_new(std::string_view piece, const char* readable_end, Workspace& work, std::vector<int32_t>& out) const;
  void encode_unit(std::string_view unit, const char* readable_end, Workspace& work, std::vector<int32_t>& out) const;
  void merge(std::string_view piece, Workspace& work, std::vector<int32_t>& out) const;
  void merge_long(Workspace& work, std::vector<int32_t>& out) const;

  Settings settings_;
  std::array<int32_t, 256> byte_ids_;
  bool has_all_bytes_ = true;
  std::string blob_;  // the bytes of all tokens
  std::unordered_map<std::string_view, int32_t> ids_by_bytes_;
  std::vector<uint64_t> pairs_;      // open addressing: left, right, rank in 21 bits each
  int pair_shift_ = 0;               // of a hash, to an index of pairs_
  std::vector<int32_t> merged_ids_;  // by rank
  std::vector<uint64_t> borders_;    // sorted; see note_border
};

}  // namespace trine
