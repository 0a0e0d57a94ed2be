#include "text/bpe.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

#include "text/utf8.h"

namespace trine {
namespace {

constexpr int32_t kNoRank = std::numeric_limits<int32_t>::max();
constexpr int kIdBits = 21;
constexpr uint64_t kIdMask = (uint64_t{1} << kIdBits) - 1;
constexpr uint64_t kEmptySlot = ~uint64_t{0};
constexpr size_t kShort = 64;  // symbols up to which the loop looks at every pair

// Tags of the word cache: the ids of a unit may differ from those of the same bytes as a piece, where whole pieces come first.
constexpr uint64_t kPiece = 0, kUnit = 1;

uint64_t pair_key(int32_t left, int32_t right) { return static_cast<uint64_t>(left) << kIdBits | static_cast<uint64_t>(right); }

uint64_t spread(uint64_t key) {
  key *= 0x9E3779B97F4A7C15;
  return (key ^ key >> 32) * 0xC2B2AE3D27D4EB4F;
}

bool is_ascii(std::string_view text) {
  unsigned char all = 0;
  for (const char c : text) all |= static_cast<unsigned char>(c);
  return all < 0x80;
}

// Up to four bytes as a number that also tells how many they are.
uint64_t packed(std::string_view bytes) {
  uint64_t out = 1;
  for (const char c : bytes) out = out << 8 | static_cast<unsigned char>(c);
  return out;  // below 2^33 for a whole character; halves of borders_ keep 32 bits, as characters of four bytes begin with 1111
}

uint64_t border_key(std::string_view left, std::string_view right) {
  return (packed(left) & 0xFFFFFFFF) << 32 | (packed(right) & 0xFFFFFFFF);
}

}  // namespace

BpeModel::BpeModel(std::span<const std::string> token_bytes, std::span<const Merge> merges, const Settings& settings)
    : settings_(settings) {
  byte_ids_.fill(kNone);
  size_t num_bytes = 0;
  for (const std::string& token : token_bytes) num_bytes += token.size();
  blob_.reserve(num_bytes);  // the views in ids_by_bytes_ rely on the blob staying where it is
  ids_by_bytes_.reserve(token_bytes.size());
  std::vector<std::string_view> views(token_bytes.size());
  for (size_t id = 0; id < token_bytes.size(); ++id) {
    if (token_bytes[id].empty()) continue;
    const size_t begin = blob_.size();
    blob_ += token_bytes[id];
    views[id] = std::string_view(blob_).substr(begin);
    ids_by_bytes_.emplace(views[id], static_cast<int32_t>(id));
    if (views[id].size() == 1) byte_ids_[static_cast<unsigned char>(views[id][0])] = static_cast<int32_t>(id);
  }
  has_all_bytes_ = std::find(byte_ids_.begin(), byte_ids_.end(), kNone) == byte_ids_.end();

  const size_t num_slots = std::bit_ceil(std::max<size_t>(64, 3 * merges.size()));
  pairs_.assign(num_slots, kEmptySlot);
  pair_shift_ = 64 - std::countr_zero(num_slots);
  merged_ids_.reserve(merges.size());
  for (const Merge& merge : merges) {
    add_pair(merge.left, merge.right, static_cast<int32_t>(merged_ids_.size()));
    merged_ids_.push_back(merge.merged);
    const bool can_happen = !views[merge.left].empty() && !views[merge.right].empty();  // both in the byte-level alphabet
    if (can_happen) note_border(views[merge.left], views[merge.right]);
  }
  std::sort(borders_.begin(), borders_.end());
  borders_.erase(std::unique(borders_.begin(), borders_.end()), borders_.end());
  borders_.shrink_to_fit();
}

void BpeModel::add_pair(int32_t left, int32_t right, int32_t rank) {
  const uint64_t key = pair_key(left, right);
  size_t slot = spread(key) >> pair_shift_;
  while (pairs_[slot] != kEmptySlot && pairs_[slot] >> kIdBits != key) slot = (slot + 1) & (pairs_.size() - 1);
  pairs_[slot] = key << kIdBits | static_cast<uint64_t>(rank);
}

inline int32_t BpeModel::rank_of(int32_t left, int32_t right) const {
  const uint64_t key = pair_key(left, right);
  for (size_t slot = spread(key) >> pair_shift_;; slot = (slot + 1) & (pairs_.size() - 1)) {
    const uint64_t entry = pairs_[slot];
    if (entry >> kIdBits == key) return static_cast<int32_t>(entry & kIdMask);
    if (entry == kEmptySlot) return kNoRank;
  }
}

// The first merge that reaches across a border between two characters joins a token that ends there with one that begins there. Of the
// left token we keep its last character, or all of it if it is only the tail of one; of the right token the first character, or all of it
// if it is only the start of one.
void BpeModel::note_border(std::string_view left, std::string_view right) {
  size_t last = left.size() - 1;
  while (last > 0 && is_utf8_continuation(static_cast<unsigned char>(left[last]))) --last;
  const auto lead = static_cast<unsigned char>(left[last]);
  if (is_utf8_continuation(lead)) {
    if (left.size() > 3) return;  // not in any valid text
  } else {
    left.remove_prefix(last);
    if (left.size() != static_cast<size_t>(utf8_length(lead))) return;  // ends inside a character
  }
  const auto first = static_cast<unsigned char>(right[0]);
  if (is_utf8_continuation(first)) return;  // begins inside a character
  right = right.substr(0, static_cast<size_t>(utf8_length(first)));
  borders_.push_back(border_key(left, right));
}

bool BpeModel::merges_reach_across(std::string_view left, std::string_view right) const {
  if (!has_all_bytes_) {
    // A dropped byte lets its neighbours meet.
    for (const char c : left) {
      if (!has_byte(static_cast<unsigned char>(c))) return true;
    }
    for (const char c : right) {
      if (!has_byte(static_cast<unsigned char>(c))) return true;
    }
  }
  for (size_t i = 0; i < left.size(); ++i) {
    for (size_t n = 1; n <= right.size(); ++n) {
      if (std::binary_search(borders_.begin(), borders_.end(), border_key(left.substr(i), right.substr(0, n)))) return true;
    }
  }
  return false;
}

std::optional<int32_t> BpeModel::id_of_bytes(std::string_view bytes) const {
  const auto found = ids_by_bytes_.find(bytes);
  return found == ids_by_bytes_.end() ? std::nullopt : std::optional(found->second);
}

void BpeModel::encode(std::string_view piece, const char* readable_end, Workspace& work, std::vector<int32_t>& out) const {
  if (piece.size() > WordCache::kLongestWord) return encode_new(piece, readable_end, work, out);
  const WordCache::Key key = WordCache::key_of(piece, readable_end, kPiece);
  if (const WordCache::Entry* entry = work.words.find(key)) {
    out.insert(out.end(), entry->ids, entry->ids + entry->num_ids);
    return;
  }
  const size_t before = out.size();
  encode_new(piece, readable_end, work, out);
  if (out.size() - before <= WordCache::kMostIds) work.words.insert(key, std::span(out).subspan(before));
}

// A piece that the cache does not know: cut where no merge reaches across, and each unit looked up or merged.
void BpeModel::encode_new(std::string_view piece, const char* readable_end, Workspace& work, std::vector<int32_t>& out) const {
  if (settings_.whole_pieces_first) {
    if (const auto id = id_of_bytes(piece)) {
      out.push_back(*id);
      return;
    }
  }
  if (is_ascii(piece)) return merge(piece, work, out);
  const char* const end = piece.data() + piece.size();
  const char* unit = piece.data();
  const char* left = unit;
  const char* p = unit;
  char32_t left_char = decode_utf8(p);
  while (p < end) {
    const char* right = p;
    const char32_t right_char = decode_utf8(p);
    const bool joined = work.borders.get(left_char, right_char, [&] {
      return merges_reach_across({left, static_cast<size_t>(right - left)}, {right, static_cast<size_t>(p - right)});
    });
    if (!joined) {
      encode_unit({unit, static_cast<size_t>(right - unit)}, readable_end, work, out);
      unit = right;
    }
    left = right;
    left_char = right_char;
  }
  encode_unit({unit, static_cast<size_t>(end - unit)}, readable_end, work, out);
}

void BpeModel::encode_unit(std::string_view unit, const char* readable_end, Workspace& work, std::vector<int32_t>& out) const {
  if (unit.size() > WordCache::kLongestWord) return merge(unit, work, out);
  const WordCache::Key key = WordCache::key_of(unit, readable_end, kUnit);
  if (const WordCache::Entry* entry = work.words.find(key)) {
    out.insert(out.end(), entry->ids, entry->ids + entry->num_ids);
    return;
  }
  const size_t before = out.size();
  merge(unit, work, out);
  if (out.size() - before <= WordCache::kMostIds) work.words.insert(key, std::span(out).subspan(before));
}

void BpeModel::merge(std::string_view piece, Workspace& work, std::vector<int32_t>& out) const {
  if (piece.size() > kShort) {
    work.ids.clear();
    for (const char c : piece) {
      const int32_t id = byte_ids_[static_cast<unsigned char>(c)];
      if (id != kNone || settings_.unknown != kNone) work.ids.push_back(id != kNone ? id : settings_.unknown);
    }
    return merge_long(work, out);
  }
  int32_t ids[kShort], ranks[kShort];  // ranks[i] is that of symbols i and i + 1
  size_t n = 0;
  for (const char c : piece) {
    const int32_t id = byte_ids_[static_cast<unsigned char>(c)];
    if (id != kNone || settings_.unknown != kNone) ids[n++] = id != kNone ? id : settings_.unknown;
  }
  for (size_t i = 0; i + 1 < n; ++i) ranks[i] = rank_of(ids[i], ids[i + 1]);
  while (n > 1) {
    const size_t best = static_cast<size_t>(std::min_element(ranks, ranks + n - 1) - ranks);  // the leftmost of the lowest
    if (ranks[best] == kNoRank) break;
    ids[best] = merged_ids_[static_cast<size_t>(ranks[best])];
    std::copy(ids + best + 2, ids + n, ids + best + 1);
    if (best + 2 < n) std::copy(ranks + best + 2, ranks + n - 1, ranks + best + 1);
    --n;
    if (best > 0) ranks[best - 1] = rank_of(ids[best - 1], ids[best]);
    if (best + 1 < n) ranks[best] = rank_of(ids[best], ids[best + 1]);
  }
  out.insert(out.end(), ids, ids + n);
}

// As merge, for work.ids of any length: symbols in a doubly linked list, pairs in a heap by (rank, place). A pair that changed since it was
// pushed is known by its rank no longer being that of the symbols at its place.
void BpeModel::merge_long(Workspace& work, std::vector<int32_t>& out) const {
  std::vector<int32_t>& ids = work.ids;
  const auto n = static_cast<int32_t>(ids.size());
  work.next.resize(ids.size());
  work.previous.resize(ids.size());
  work.heap.clear();
  const auto entry = [](int32_t rank, int32_t place) { return static_cast<uint64_t>(rank) << 32 | static_cast<uint32_t>(place); };
  for (int32_t i = 0; i < n; ++i) {
    work.next[i] = i + 1;
    work.previous[i] = i - 1;
    const int32_t rank = i + 1 < n ? rank_of(ids[i], ids[i + 1]) : kNoRank;
    if (rank != kNoRank) work.heap.push_back(entry(rank, i));
  }
  const auto later = std::greater<uint64_t>();
  std::make_heap(work.heap.begin(), work.heap.end(), later);
  const auto push = [&](int32_t place) {
    if (place < 0 || work.next[place] >= n) return;
    const int32_t rank = rank_of(ids[place], ids[work.next[place]]);
    if (rank == kNoRank) return;
    work.heap.push_back(entry(rank, place));
    std::push_heap(work.heap.begin(), work.heap.end(), later);
  };
  while (!work.heap.empty()) {
    std::pop_heap(work.heap.begin(), work.heap.end(), later);
    const auto rank = static_cast<int32_t>(work.heap.back() >> 32);
    const auto place = static_cast<int32_t>(work.heap.back() & 0xFFFFFFFF);
    work.heap.pop_back();
    const int32_t right = work.next[place];
    if (ids[place] == kNone || right >= n || rank_of(ids[place], ids[right]) != rank) continue;
    ids[place] = merged_ids_[static_cast<size_t>(rank)];
    ids[right] = kNone;
    work.next[place] = work.next[right];
    if (work.next[place] < n) work.previous[work.next[place]] = place;
    push(work.previous[place]);
    push(place);
  }
  for (const int32_t id : ids) {
    if (id != kNone) out.push_back(id);
  }
}

}  // namespace trine
