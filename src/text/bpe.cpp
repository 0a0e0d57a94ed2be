#include "text/bpe.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

#include "text/utf8.h"

namespace trine {
namespace {

constexpr int32_t kNoRank = std::numeric_limits<int32_t>::max();
constexpr int kFilterBits = 20;
constexpr size_t kShort = 64;  // symbols up to which the loop looks at every pair

// Tags of the word cache: the ids of a unit may differ from those of the same bytes as a piece, where whole pieces come first.
constexpr uint64_t kPiece = 0, kUnit = 1;

uint64_t pair_hash(int32_t left, int32_t right) {
  const uint64_t key = (static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right)) * 0x9E3779B97F4A7C15;
  return (key ^ key >> 32) * 0xC2B2AE3D27D4EB4F;
}

bool is_ascii(std::string_view text) {
  unsigned char all = 0;
  for (const char c : text) all |= static_cast<unsigned char>(c);
  return all < 0x80;
}

// Up to four bytes as a number that also tells how many they are: after a one, which falls off before four bytes, whose first is above 1.
uint32_t packed(std::string_view bytes) {
  uint32_t out = 1;
  for (const char c : bytes) out = out << 8 | static_cast<unsigned char>(c);
  return out;
}

uint64_t border_key(std::string_view left, std::string_view right) { return uint64_t{packed(left)} << 32 | packed(right); }

bool has(const std::vector<uint64_t>& sorted, uint64_t key) { return std::binary_search(sorted.begin(), sorted.end(), key); }

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

  const size_t num_slots = std::bit_ceil(std::max<size_t>(64, merges.size() + merges.size() / 2));
  pairs_.resize(num_slots);
  pair_shift_ = 64 - std::countr_zero(num_slots);
  pair_filter_.resize(size_t{1} << (kFilterBits - 6));
  first_uses_.assign(token_bytes.size(), kNoRank);
  int32_t rank = 0;
  for (const Merge& merge : merges) {
    add_pair({merge.left, merge.right, rank, merge.merged});
    for (const int32_t part : {merge.left, merge.right}) first_uses_[part] = std::min(first_uses_[part], rank);
    ++rank;
    const bool can_happen = !views[merge.left].empty() && !views[merge.right].empty();  // both in the byte-level alphabet
    if (can_happen) note_border(views[merge.left], views[merge.right]);
  }
  for (std::vector<uint64_t>* borders : {&whole_borders_, &inside_borders_}) {
    std::sort(borders->begin(), borders->end());
    borders->erase(std::unique(borders->begin(), borders->end()), borders->end());
    borders->shrink_to_fit();
  }
}

void BpeModel::add_pair(const Pair& pair) {
  const uint64_t hash = pair_hash(pair.left, pair.right);
  size_t slot = hash >> pair_shift_;
  while (pairs_[slot].left != kNone && (pairs_[slot].left != pair.left || pairs_[slot].right != pair.right)) {
    slot = (slot + 1) & (pairs_.size() - 1);
  }
  pairs_[slot] = pair;
  const uint64_t bit = hash >> (64 - kFilterBits);
  pair_filter_[bit / 64] |= uint64_t{1} << (bit % 64);
}

// The merge of two tokens; one of rank kNoRank if there is none.
inline const BpeModel::Pair& BpeModel::find_pair(int32_t left, int32_t right) const {
  static constexpr Pair kNoPair = {kNone, kNone, kNoRank, kNone};
  const uint64_t hash = pair_hash(left, right);
  const uint64_t bit = hash >> (64 - kFilterBits);
  if ((pair_filter_[bit / 64] >> (bit % 64) & 1) == 0) return kNoPair;
  for (size_t slot = hash >> pair_shift_;; slot = (slot + 1) & (pairs_.size() - 1)) {
    const Pair& pair = pairs_[slot];
    if (pair.left == left && pair.right == right) return pair;
    if (pair.left == kNone) return kNoPair;
  }
}

// The first merge that reaches across a border between two characters joins a token that ends there with one that begins there. Of the
// left token we keep its last character, or all of it if it is only the tail of one; of the right token the first character, or all of it
// if it is only the start of one.
void BpeModel::note_border(std::string_view left, std::string_view right) {
  size_t last = left.size() - 1;
  while (last > 0 && is_utf8_continuation(static_cast<unsigned char>(left[last]))) --last;
  const auto lead = static_cast<unsigned char>(left[last]);
  const bool left_is_tail = is_utf8_continuation(lead);
  if (left_is_tail) {
    if (left.size() > 3) return;  // not in any valid text
  } else {
    left.remove_prefix(last);
    if (left.size() != static_cast<size_t>(utf8_length(lead))) return;  // ends inside a character
  }
  const auto first = static_cast<unsigned char>(right[0]);
  if (is_utf8_continuation(first)) return;  // begins inside a character
  right = right.substr(0, static_cast<size_t>(utf8_length(first)));
  const bool right_is_start = right.size() < static_cast<size_t>(utf8_length(first));
  (left_is_tail || right_is_start ? inside_borders_ : whole_borders_).push_back(border_key(left, right));
}

Border BpeModel::border_of(std::string_view left, std::string_view right) const {
  if (!has_all_bytes_) {
    // A dropped byte lets its neighbours meet.
    const auto is_missing = [&](char byte) { return !has_byte(static_cast<unsigned char>(byte)); };
    if (std::any_of(left.begin(), left.end(), is_missing) || std::any_of(right.begin(), right.end(), is_missing)) return Border::kInside;
  }
  for (size_t i = 0; i < left.size(); ++i) {
    for (size_t n = 1; n <= right.size(); ++n) {
      if (has(inside_borders_, border_key(left.substr(i), right.substr(0, n)))) return Border::kInside;
    }
  }
  return has(whole_borders_, border_key(left, right)) ? Border::kWhole : Border::kNever;
}

std::optional<int32_t> BpeModel::id_of_bytes(std::string_view bytes) const {
  const auto found = ids_by_bytes_.find(bytes);
  return found == ids_by_bytes_.end() ? std::nullopt : std::optional(found->second);
}

void BpeModel::encode(std::span<const std::string_view> pieces, const char* readable_end, Workspace& work,
                      std::vector<int32_t>& out) const {
  for (; pieces.size() > kPiecesAtOnce; pieces = pieces.subspan(kPiecesAtOnce)) {
    encode_at_once(pieces.first(kPiecesAtOnce), readable_end, work, out);
  }
  encode_at_once(pieces, readable_end, work, out);
}

// The cache is larger than near memory, so the look-ups of some pieces are begun before the first is needed.
void BpeModel::encode_at_once(std::span<const std::string_view> pieces, const char* readable_end, Workspace& work,
                              std::vector<int32_t>& out) const {
  std::array<WordCache::Key, kPiecesAtOnce> keys;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].size() > WordCache::kLongestWord) continue;
    keys[i] = WordCache::key_of(pieces[i], readable_end, kPiece);
    work.words.prefetch(keys[i]);
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].size() > WordCache::kLongestWord) {
      encode_new(pieces[i], readable_end, work, out);
    } else if (const WordCache::Entry* entry = work.words.find(keys[i])) {
      out.insert(out.end(), entry->ids, entry->ids + entry->num_ids);
    } else {
      const size_t before = out.size();
      encode_new(pieces[i], readable_end, work, out);
      if (out.size() - before <= WordCache::kMostIds) work.words.insert(keys[i], std::span(out).subspan(before));
    }
  }
}

// A piece that the cache does not know: cut where no merge reaches across, and each unit looked up or merged.
void BpeModel::encode_new(std::string_view piece, const char* readable_end, Workspace& work, std::vector<int32_t>& out) const {
  if (settings_.whole_pieces_first) {
    if (const auto id = id_of_bytes(piece)) {
      out.push_back(*id);
      return;
    }
  }
  if (is_ascii(piece)) {
    work.symbols.clear();
    add_bytes(piece, work.symbols);
    return merge(work, out);
  }
  const char* const end = piece.data() + piece.size();
  const char* unit = piece.data();
  for (const char* p = unit; p < end;) {
    const char* left = p;
    const char32_t left_char = decode_utf8(p);
    if (p < end && border_at(p, left, left_char, work) != Border::kNever) continue;
    encode_unit({unit, static_cast<size_t>(p - unit)}, readable_end, work, out);
    unit = p;
  }
}

// The border at `p` between the character that begins at `left` and the next one.
Border BpeModel::border_at(const char* p, const char* left, char32_t left_char, Workspace& work) const {
  const char* right_end = p;
  const char32_t right_char = decode_utf8(right_end);
  return work.borders.get(left_char, right_char, [&] {
    return border_of({left, static_cast<size_t>(p - left)}, {p, static_cast<size_t>(right_end - p)});
  });
}

// The symbols to begin with: characters that only whole tokens reach from both sides are merged on their own beforehand.
void BpeModel::encode_unit(std::string_view unit, const char* readable_end, Workspace& work, std::vector<int32_t>& out) const {
  WordCache::Key key;
  const bool cached = unit.size() <= WordCache::kLongestWord;
  if (cached) {
    key = WordCache::key_of(unit, readable_end, kUnit);
    if (const WordCache::Entry* entry = work.words.find(key)) {
      out.insert(out.end(), entry->ids, entry->ids + entry->num_ids);
      return;
    }
  }
  work.symbols.clear();
  const char* const end = unit.data() + unit.size();
  Border before = Border::kNever;
  for (const char* p = unit.data(); p < end;) {
    const char* begin = p;
    const char32_t c = decode_utf8(p);
    const Border after = p < end ? border_at(p, begin, c, work) : Border::kNever;
    const std::string_view bytes(begin, static_cast<size_t>(p - begin));
    if (before == Border::kInside || after == Border::kInside) {
      add_bytes(bytes, work.symbols);
    } else {
      add_character(bytes, c, work);
    }
    before = after;
  }
  const size_t num_before = out.size();
  merge(work, out);
  if (cached && out.size() - num_before <= WordCache::kMostIds) work.words.insert(key, std::span(out).subspan(num_before));
}

void BpeModel::add_bytes(std::string_view bytes, std::vector<int32_t>& symbols) const {
  for (const char byte : bytes) {
    const int32_t id = byte_ids_[static_cast<unsigned char>(byte)];
    if (id != kNone || settings_.unknown != kNone) symbols.push_back(id != kNone ? id : settings_.unknown);
  }
}

// While a character is not merged, a pair inside it has at most its highest rank. If every merge that takes the character as a part comes
// later than that, nothing can happen to the character before it is whole, so it may as well be whole from the start.
void BpeModel::add_character(std::string_view bytes, char32_t c, Workspace& work) const {
  const CharacterCache::Entry& known = work.characters.get(c, [&](CharacterCache::Entry& entry) {
    std::vector<int32_t> ids;
    add_bytes(bytes, ids);
    int32_t highest_rank = -1;
    const size_t n = merge_short(ids, &highest_rank);
    const bool may_go_first = n == 1 ? highest_rank < first_uses_[ids[0]] : n > 0;
    entry.num_ids = may_go_first ? static_cast<int32_t>(n) : -1;
    if (may_go_first) std::copy_n(ids.begin(), n, entry.ids);
  });
  if (known.num_ids < 0) return add_bytes(bytes, work.symbols);
  work.symbols.insert(work.symbols.end(), known.ids, known.ids + known.num_ids);
}

// Merges work.symbols and appends what is left of them to `out`.
void BpeModel::merge(Workspace& work, std::vector<int32_t>& out) const {
  std::vector<int32_t>& symbols = work.symbols;
  if (symbols.size() <= kShort) {
    int32_t highest_rank = -1;
    symbols.resize(merge_short(symbols, &highest_rank));
  } else {
    merge_long(work);
  }
  out.insert(out.end(), symbols.begin(), symbols.end());
}

// Merges at most kShort symbols in place; gives how many are left.
size_t BpeModel::merge_short(std::span<int32_t> ids, int32_t* highest_rank) const {
  struct Candidate {
    int32_t rank, merged;
  };
  Candidate pairs[kShort];  // pairs[i] is that of symbols i and i + 1
  const auto look_up = [&](size_t i) {
    const Pair& pair = find_pair(ids[i], ids[i + 1]);
    pairs[i] = {pair.rank, pair.merged};
  };
  size_t n = ids.size();
  for (size_t i = 0; i + 1 < n; ++i) look_up(i);
  while (n > 1) {
    size_t best = 0;  // the leftmost of the lowest
    for (size_t i = 1; i + 1 < n; ++i) best = pairs[i].rank < pairs[best].rank ? i : best;
    if (pairs[best].rank == kNoRank) break;
    *highest_rank = std::max(*highest_rank, pairs[best].rank);
    ids[best] = pairs[best].merged;
    --n;
    for (size_t i = best + 1; i < n; ++i) ids[i] = ids[i + 1];
    for (size_t i = best + 1; i + 1 < n; ++i) pairs[i] = pairs[i + 1];
    if (best > 0) look_up(best - 1);
    if (best + 1 < n) look_up(best);
  }
  return n;
}

// As merge_short, for any number of work.symbols: they are a doubly linked list, and their pairs a heap by (rank, place). A pair that
// changed since it was pushed is known by its rank no longer being that of the symbols at its place.
void BpeModel::merge_long(Workspace& work) const {
  std::vector<int32_t>& ids = work.symbols;
  const auto n = static_cast<int32_t>(ids.size());
  work.next.resize(ids.size());
  work.previous.resize(ids.size());
  work.heap.clear();
  const auto entry = [](int32_t rank, int32_t place) { return static_cast<uint64_t>(rank) << 32 | static_cast<uint32_t>(place); };
  for (int32_t i = 0; i < n; ++i) {
    work.next[i] = i + 1;
    work.previous[i] = i - 1;
    const int32_t rank = i + 1 < n ? find_pair(ids[i], ids[i + 1]).rank : kNoRank;
    if (rank != kNoRank) work.heap.push_back(entry(rank, i));
  }
  const auto later = std::greater<uint64_t>();
  std::make_heap(work.heap.begin(), work.heap.end(), later);
  const auto push = [&](int32_t place) {
    if (place < 0 || work.next[place] >= n) return;
    const int32_t rank = find_pair(ids[place], ids[work.next[place]]).rank;
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
    if (ids[place] == kNone || right >= n) continue;
    const Pair& pair = find_pair(ids[place], ids[right]);
    if (pair.rank != rank) continue;
    ids[place] = pair.merged;
    ids[right] = kNone;
    work.next[place] = work.next[right];
    if (work.next[place] < n) work.previous[work.next[place]] = place;
    push(work.previous[place]);
    push(place);
  }
  std::erase(ids, kNone);
}

}  // namespace trine
