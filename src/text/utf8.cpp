#include "text/utf8.h"

#include <simdjson.h>

#include <algorithm>

namespace trine {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// A well-formed character at the start of `text`, or its longest prefix that could begin one (Unicode 15.0, table 3-7).
struct Prefix {
  size_t length;  // at least 1
  bool whole;
  size_t wanted;  // bytes that the character would have; 1 for a byte that begins none
};

Prefix longest_prefix(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {1, true, 1};
  if (lead < 0xC2 || lead > 0xF4) return {1, false, 1};
  const size_t wanted = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte's range excludes over-long forms, surrogates and what lies beyond U+10FFFF.
  const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  size_t length = 1;
  if (text.size() > 1 && byte(1) >= low && byte(1) <= high) {
    length = 2;
    while (length < wanted && length < text.size() && is_utf8_continuation(byte(length))) ++length;
  }
  return {length, length == wanted, wanted};
}

}  // namespace

void append_utf8(char32_t c, std::string& out) {
  if (c < 0x80) {
    out += static_cast<char>(c);
    return;
  }
  const auto continuation = [&](int shift) { return static_cast<char>(0x80 | (c >> shift & 0x3F)); };
  if (c < 0x800) {
    out += {static_cast<char>(0xC0 | c >> 6), continuation(0)};
  } else if (c < 0x10000) {
    out += {static_cast<char>(0xE0 | c >> 12), continuation(6), continuation(0)};
  } else {
    out += {static_cast<char>(0xF0 | c >> 18), continuation(12), continuation(6), continuation(0)};
  }
}

size_t EditMap::to_original(size_t position) const {
  // The last edit that begins before the position.
  const auto after = std::partition_point(edits_.begin(), edits_.end(), [&](const Edit& e) { return e.new_begin < position; });
  if (after == edits_.begin()) return position;
  const Edit& edit = *std::prev(after);
  return position <= edit.new_end ? edit.old_end : edit.old_end + (position - edit.new_end);
}

bool is_valid_utf8(std::string_view text) { return simdjson::validate_utf8(text.data(), text.size()); }

void append_valid_utf8(std::string_view text, std::string& out, EditMap* edits) {
  size_t copied = 0;
  for (size_t i = 0; i < text.size();) {
    const Prefix prefix = longest_prefix(text.substr(i));
    if (!prefix.whole) {
      out.append(text, copied, i - copied);
      out += kReplacement;
      copied = i + prefix.length;
      if (edits) edits->add(i, copied, out.size() - kReplacement.size(), out.size());
    }
    i += prefix.length;
  }
  out.append(text, copied);
}

size_t complete_utf8_prefix(std::string_view text) {
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
    const size_t begin = text.size() - back;
    if (is_utf8_continuation(static_cast<unsigned char>(text[begin]))) continue;
    const Prefix prefix = longest_prefix(text.substr(begin));
    const bool may_grow = !prefix.whole && prefix.length == back && prefix.length < prefix.wanted;
    return may_grow ? begin : text.size();
  }
  return text.size();
}

}  // namespace trine
