// What an encoding thread remembers: the ids of short pieces of text, and between which characters a piece may be cut. Both are of fixed
// size and forget by overwriting.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace trine {

class WordCache {
 public:
  static constexpr size_t kLongestWord = 31;
  static constexpr size_t kMostIds = 7;

  // The bytes of a word, padded with zeros, and in the last byte its length and `tag`; comparing keys compares words.
  struct Key {
    uint64_t words[4];
    bool operator==(const Key&) const = default;
  };
  struct alignas(64) Entry {
    Key key;  // all zero: nothing is stored
    int32_t ids[kMostIds];
    int32_t num_ids;
  };

  WordCache() : entries_(kNumEntries) {}

  // `word` has 1 to kLongestWord bytes. The bytes from it to `readable_end` may be read. Words of one text with different tags
  // (0 to 7) are different.
  static Key key_of(std::string_view word, const char* readable_end, uint64_t tag) {
    Key key;
    if (static_cast<size_t>(readable_end - word.data()) >= sizeof key.words) {
      std::memcpy(key.words, word.data(), sizeof key.words);
      for (size_t i = 0; i < 4; ++i) key.words[i] &= low_bytes(static_cast<int>(word.size()) - static_cast<int>(8 * i));
    } else {
      key.words[0] = key.words[1] = key.words[2] = key.words[3] = 0;
      std::memcpy(key.words, word.data(), word.size());
    }
    key.words[3] |= (static_cast<uint64_t>(word.size()) | tag << 5) << 56;
    return key;
  }

  void prefetch(const Key& key) const { __builtin_prefetch(&entries_[slot_of(key)]); }

  const Entry* find(const Key& key) const {
    const size_t slot = slot_of(key);
    if (entries_[slot].key == key) return &entries_[slot];
    if (entries_[slot ^ 1].key == key) return &entries_[slot ^ 1];
    return nullptr;
  }

  // Forgets the older of the two words that share a pair of slots with `key`. At most kMostIds ids.
  void insert(const Key& key, std::span<const int32_t> ids) {
    Entry& entry = entries_[slot_of(key)];
    entries_[slot_of(key) ^ 1] = entry;
    entry.key = key;
    std::copy(ids.begin(), ids.end(), entry.ids);
    entry.num_ids = static_cast<int32_t>(ids.size());
  }

 private:
  static constexpr size_t kNumEntries = size_t{1} << 15;  // 2 MiB

  // A mask of the lowest `n` bytes of 8.
  static uint64_t low_bytes(int n) { return n >= 8 ? ~uint64_t{0} : n <= 0 ? 0 : (uint64_t{1} << (8 * n)) - 1; }

  static size_t slot_of(const Key& key) {
    const auto fold = [](uint64_t a, uint64_t b) {
      const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
      return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
    };
    const uint64_t hash = fold(key.words[0] ^ 0x9E3779B97F4A7C15, key.words[1] ^ 0xC2B2AE3D27D4EB4F) +
                          fold(key.words[2] ^ 0x165667B19E3779F9, key.words[3] ^ 0x27D4EB2F165667C5);
    return hash & (kNumEntries - 1);
  }

  std::vector<Entry> entries_;
};

// How merges can reach across the border between two characters.
enum class Border : uint8_t {
  kUnknown,  // not looked up yet
  kNever,    // not at all
  kWhole,    // only between tokens that end and begin with whole characters
  kInside,   // also between parts of the characters
};

class BorderCache {
 public:
  BorderCache() : slots_(size_t{1} << kSlotBits) {}

  // The border of `left` before `right`, from `compute()` unless it is remembered.
  template <class Compute>
  Border get(char32_t left, char32_t right, Compute compute) {
    const uint64_t key = static_cast<uint64_t>(left) << 21 | right;
    uint64_t& slot = slots_[(key * 0x9E3779B97F4A7C15) >> (64 - kSlotBits)];
    if (slot >> 2 != key || (slot & 3) == 0) slot = key << 2 | static_cast<uint64_t>(compute());
    return static_cast<Border>(slot & 3);
  }

 private:
  static constexpr int kSlotBits = 15;
  std::vector<uint64_t> slots_;  // key and Border
};

// The ids of a character on its own.
class CharacterCache {
 public:
  struct Entry {
    char32_t character;
    int32_t num_ids = 0;  // 0: nothing is stored; -1: the character must be merged byte by byte
    int32_t ids[4];
  };

  CharacterCache() : entries_(size_t{1} << kSlotBits) {}

  // The entry of `c`, which `fill(entry)` completes unless it is remembered.
  template <class Fill>
  const Entry& get(char32_t c, Fill fill) {
    Entry& entry = entries_[(c * 0x9E3779B1u) >> (32 - kSlotBits)];
    if (entry.character != c || entry.num_ids == 0) {
      entry.character = c;
      fill(entry);
    }
    return entry;
  }

 private:
  static constexpr int kSlotBits = 13;
  std::vector<Entry> entries_;
};

}  // namespace trine
