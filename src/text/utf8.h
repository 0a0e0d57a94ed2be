// UTF-8 of known validity: decoding without checks, and the one place where ill-formed input is replaced.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trine {

// Bytes of the character that starts with `lead`, in valid UTF-8.
inline int utf8_length(unsigned char lead) { return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4; }

inline bool is_utf8_continuation(unsigned char byte) { return (byte & 0xC0) == 0x80; }

// The character at `p` of valid UTF-8; moves `p` past it.
inline char32_t decode_utf8(const char*& p) {
  const auto byte = [&](int i) { return static_cast<char32_t>(static_cast<unsigned char>(p[i])); };
  const char32_t lead = byte(0);
  if (lead < 0x80) return p += 1, lead;
  if (lead < 0xE0) {
    const char32_t c = (lead & 0x1F) << 6 | (byte(1) & 0x3F);
    return p += 2, c;
  }
  if (lead < 0xF0) {
    const char32_t c = (lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    return p += 3, c;
  }
  const char32_t c = (lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
  return p += 4, c;
}

void append_utf8(char32_t c, std::string& out);

// How positions in an edited text relate to those in the text it was made from: a list of replaced stretches.
class EditMap {
 public:
  void clear() { edits_.clear(); }
  bool empty() const { return edits_.empty(); }
  // The original's bytes [old_begin, old_end) became [new_begin, new_end); stretches come in order.
  void add(size_t old_begin, size_t old_end, size_t new_begin, size_t new_end) {
    edits_.push_back({old_begin, old_end, new_begin, new_end});
  }
  // The position in the original where a prefix of `position` edited bytes ends; inside a replaced stretch that is the stretch's end.
  size_t to_original(size_t position) const;

 private:
  struct Edit {
    size_t old_begin, old_end, new_begin, new_end;
  };
  std::vector<Edit> edits_;
};

bool is_valid_utf8(std::string_view text);

// Appends `text` to `out`, every maximal ill-formed part replaced by U+FFFD (Unicode 15.0, section 3.9). `edits`, if given, is told of
// them, in positions of `text` and of `out`.
void append_valid_utf8(std::string_view text, std::string& out, EditMap* edits = nullptr);

// Length of the longest prefix of `text` that does not end inside a character which further bytes could complete.
size_t complete_utf8_prefix(std::string_view text);

}  // namespace trine
