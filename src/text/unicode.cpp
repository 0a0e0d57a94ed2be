#include "text/unicode.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <vector>

namespace trine {
namespace {

struct CodePointRange {
  char32_t first, last;
};
struct CombiningRange {
  char32_t first, last;
  uint8_t combining_class;
};
struct Mapping {
  char32_t code_point, first, second;
  bool composes;
};
#include "text/unicode_tables.inc"

constexpr size_t kNumCodePoints = 0x110000;

template <size_t n>
void mark(std::vector<uint8_t>& table, const CodePointRange (&ranges)[n], CharKind kind) {
  for (const CodePointRange& range : ranges) std::fill(&table[range.first], &table[range.last] + 1, static_cast<uint8_t>(kind));
}

std::vector<uint8_t> make_kinds(bool digits) {
  std::vector<uint8_t> table(kNumCodePoints, static_cast<uint8_t>(CharKind::kOther));
  mark(table, kLetters, CharKind::kLetter);
  if (digits) {
    mark(table, kDigits, CharKind::kNumber);
  } else {
    mark(table, kNumbers, CharKind::kNumber);
  }
  mark(table, kSpaces, CharKind::kSpace);
  table['\r'] = table['\n'] = static_cast<uint8_t>(CharKind::kNewline);
  return table;
}

// Hangul syllables are composed by arithmetic (Unicode 15.0, section 3.12).
constexpr char32_t kSyllables = 0xAC00, kLeads = 0x1100, kVowels = 0x1161, kTrails = 0x11A7;
constexpr char32_t kNumLeads = 19, kNumVowels = 21, kNumTrails = 28, kNumSyllables = kNumLeads * kNumVowels * kNumTrails;

uint8_t combining_class(char32_t c) {
  const auto* range = std::partition_point(std::begin(kCombining), std::end(kCombining), [&](const auto& r) { return r.last < c; });
  return range != std::end(kCombining) && range->first <= c ? range->combining_class : 0;
}

// The pairs that compose, sorted by their two parts.
const std::vector<Mapping>& compositions() {
  static const std::vector<Mapping> pairs = [] {
    std::vector<Mapping> out;
    std::copy_if(std::begin(kMappings), std::end(kMappings), std::back_inserter(out), [](const Mapping& m) { return m.composes; });
    std::sort(out.begin(), out.end(),
              [](const Mapping& a, const Mapping& b) { return std::pair(a.first, a.second) < std::pair(b.first, b.second); });
    return out;
  }();
  return pairs;
}

// The primary composite of two characters, or 0.
char32_t compose(char32_t first, char32_t second) {
  if (first - kLeads < kNumLeads && second - kVowels < kNumVowels) {
    return kSyllables + ((first - kLeads) * kNumVowels + (second - kVowels)) * kNumTrails;
  }
  if (first - kSyllables < kNumSyllables && (first - kSyllables) % kNumTrails == 0 && second - kTrails - 1 < kNumTrails - 1) {
    return first + (second - kTrails);
  }
  const std::vector<Mapping>& pairs = compositions();
  const auto found = std::lower_bound(pairs.begin(), pairs.end(), std::pair(first, second),
                                      [](const Mapping& m, const auto& pair) { return std::pair(m.first, m.second) < pair; });
  return found != pairs.end() && found->first == first && found->second == second ? found->code_point : 0;
}

// Appends the full canonical decomposition of `c`.
void decompose(char32_t c, std::vector<char32_t>& out) {
  if (c - kSyllables < kNumSyllables) {
    const char32_t index = c - kSyllables;
    out.push_back(kLeads + index / (kNumVowels * kNumTrails));
    out.push_back(kVowels + index / kNumTrails % kNumVowels);
    if (index % kNumTrails != 0) out.push_back(kTrails + index % kNumTrails);
    return;
  }
  const auto* found = std::partition_point(std::begin(kMappings), std::end(kMappings), [&](const auto& m) { return m.code_point < c; });
  if (found == std::end(kMappings) || found->code_point != c) {
    out.push_back(c);
    return;
  }
  decompose(found->first, out);
  if (found->second != 0) decompose(found->second, out);
}

// 1 for characters next to which a text may fail to be in form C: marks, second halves of composites, and what always decomposes.
const std::vector<uint8_t>& nfc_risks() {
  static const std::vector<uint8_t> table = [] {
    std::vector<uint8_t> risks(kNumCodePoints, 0);
    for (const CombiningRange& range : kCombining) std::fill(&risks[range.first], &risks[range.last] + 1, 1);
    for (const Mapping& mapping : kMappings) risks[mapping.composes ? mapping.second : mapping.code_point] = 1;
    std::fill(&risks[kVowels], &risks[kVowels + kNumVowels], 1);
    std::fill(&risks[kTrails + 1], &risks[kTrails + kNumTrails], 1);
    return risks;
  }();
  return table;
}

// Sorts a run of marks by class; marks of one class keep their order.
void order_marks(std::span<char32_t> marks) {
  const auto lower_class = [](char32_t a, char32_t b) { return combining_class(a) < combining_class(b); };
  if (std::is_sorted(marks.begin(), marks.end(), lower_class)) return;
  std::vector<uint64_t> keys;  // class, place in the run, character
  for (const char32_t c : marks) keys.push_back(uint64_t{combining_class(c)} << 56 | keys.size() << 21 | c);
  std::sort(keys.begin(), keys.end());
  std::transform(keys.begin(), keys.end(), marks.begin(), [](uint64_t key) { return static_cast<char32_t>(key & 0x1FFFFF); });
}

// Form C of decomposed text in place: marks in canonical order, then pairs composed from left to right.
void reorder_and_compose(std::vector<char32_t>& text) {
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && combining_class(text[end]) != 0) ++end;
    order_marks(std::span(text).subspan(i, end - i));
    i = end + 1;
  }
  size_t written = 0, starter = 0;
  bool has_starter = false;
  int last_class = -1;  // of what was written after the starter; -1: nothing was
  for (const char32_t c : text) {
    const int c_class = combining_class(c);
    if (has_starter && last_class < c_class) {
      if (const char32_t composite = compose(text[starter], c)) {
        text[starter] = composite;
        continue;
      }
    }
    if (c_class == 0) {
      starter = written;
      has_starter = true;
      last_class = -1;
    } else {
      last_class = c_class;
    }
    text[written++] = c;
  }
  text.resize(written);
}

}  // namespace

CharKinds regex_char_kinds() {
  static const std::vector<uint8_t> table = make_kinds(false);
  return {table.data()};
}

CharKinds digits_char_kinds() {
  static const std::vector<uint8_t> table = make_kinds(true);
  return {table.data()};
}

bool is_white_space(char32_t c) {
  const CharKind kind = regex_char_kinds()[c];
  return kind == CharKind::kSpace || kind == CharKind::kNewline;
}

bool is_surely_nfc(std::string_view text) {
  const uint8_t* risks = nfc_risks().data();
  const char* p = text.data();
  const char* end = p + text.size();
  while (p < end) {
    // No character below U+0300 is a risk, and those are encoded with lead bytes below 0xCC.
    if (static_cast<unsigned char>(*p) < 0xCC) {
      ++p;
    } else if (risks[decode_utf8(p)]) {
      return false;
    }
  }
  return true;
}

void append_nfc(std::string_view text, std::string& out, EditMap* edits) {
  const uint8_t* risks = nfc_risks().data();
  std::vector<char32_t> decomposed;
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const char* copied = begin;
  const char* previous = nullptr;  // the unmarked character just before p, if any
  for (const char* p = begin; p < end;) {
    const char* here = p;
    if (!risks[decode_utf8(p)]) {
      previous = here;
      continue;
    }
    // A stretch runs from the unmarked character before the risky ones up to the next unmarked one: nothing composes across its ends.
    const char* stretch = previous ? previous : here;
    while (p < end) {
      const char* next = p;
      if (!risks[decode_utf8(next)]) break;
      p = next;
    }
    decomposed.clear();
    for (const char* q = stretch; q < p;) decompose(decode_utf8(q), decomposed);
    reorder_and_compose(decomposed);
    out.append(copied, stretch);
    const size_t new_begin = out.size();
    for (const char32_t c : decomposed) append_utf8(c, out);
    const std::string_view before(stretch, p), after = std::string_view(out).substr(new_begin);
    if (edits && before != after) {
      const size_t first = static_cast<size_t>(utf8_length(static_cast<unsigned char>(before[0])));
      const size_t same = before.substr(0, first) == after.substr(0, first) ? first : 0;  // the unmarked character, if nothing joined it
      edits->add(static_cast<size_t>(stretch - begin) + same, static_cast<size_t>(p - begin), new_begin + same, out.size());
    }
    copied = p;
    previous = nullptr;
  }
  out.append(copied, end);
}

}  // namespace trine
