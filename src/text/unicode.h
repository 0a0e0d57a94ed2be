// Characters as the `tokenizers` library classifies and composes them, version for version (see tools/make_unicode_tables.py).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "text/utf8.h"

namespace trine {

// What a split pattern distinguishes. Every code point has exactly one kind.
enum class CharKind : uint8_t {
  kOther,    // [^\s\p{L}\p{N}]
  kLetter,   // \p{L}
  kNumber,   // \p{N}, or in a digits table what the Digits pre-tokenizer splits off
  kSpace,    // \s without the next two
  kNewline,  // U+000A, U+000D
};

// One CharKind per code point.
struct CharKinds {
  const uint8_t* table;  // 0x110000 entries
  CharKind operator[](char32_t c) const { return static_cast<CharKind>(table[c]); }
};
CharKinds regex_char_kinds();   // numbers are \p{N}
CharKinds digits_char_kinds();  // numbers are those of the Digits pre-tokenizer

bool is_white_space(char32_t c);  // \s

// Whether normalisation form C leaves every text of unmarked characters as it is; if not, `text` may still be normal.
bool is_surely_nfc(std::string_view text);

// Appends the normalisation form C of valid UTF-8 to `out`. `edits`, if given, is told of what changed.
void append_nfc(std::string_view text, std::string& out, EditMap* edits = nullptr);

}  // namespace trine
