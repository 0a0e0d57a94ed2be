// The first step of byte-level BPE: cutting text into the pieces that are merged each on its own.
//
// A tokenizer.json states the cuts as a regular expression. We know three and have written each out by hand, since an expression engine
// would take most of the time of encoding; tests compare them with the expressions themselves. In all three a piece is found from its
// first character on, in the order of the expression's alternatives.
#pragma once

#include <optional>
#include <string_view>

#include "text/unicode.h"

namespace trine {

enum class SplitRule {
  kQwen2,       // Qwen2, Qwen2.5, Qwen3: numbers one by one
  kLlama3,      // as kQwen2, but up to three numbers at a time
  kGpt2,        // GPT-2: the ByteLevel pre-tokenizer's own expression
  kGpt2Digits,  // SmolLM2: numbers are cut off one by one first, then as kGpt2
};

// The rule that a Split pre-tokenizer's expression stands for, if we know it.
std::optional<SplitRule> split_rule_of_regex(std::string_view regex);

// The expressions that split_rule_of_regex knows, and GPT-2's.
std::string_view split_regex(SplitRule rule);

class Splitter {
 public:
  explicit Splitter(SplitRule rule)
      : rule_(rule), kinds_(rule == SplitRule::kGpt2Digits ? digits_char_kinds() : regex_char_kinds()) {}
  SplitRule rule() const { return rule_; }

  // Calls `take(std::string_view)` for every piece of `text`, which is valid UTF-8, in order; together the pieces are the text.
  template <class Take>
  void split(std::string_view text, Take&& take) const {
    switch (rule_) {
      case SplitRule::kQwen2: return split_by<SplitRule::kQwen2>(text, take);
      case SplitRule::kLlama3: return split_by<SplitRule::kLlama3>(text, take);
      case SplitRule::kGpt2: return split_by<SplitRule::kGpt2>(text, take);
      case SplitRule::kGpt2Digits: return split_by<SplitRule::kGpt2Digits>(text, take);
    }
  }

 private:
  template <SplitRule rule, class Take>
  void split_by(std::string_view text, Take& take) const {
    const char* p = text.data();
    const char* const end = p + text.size();
    while (p < end) {
      const char* const piece = p;
      if constexpr (rule == SplitRule::kQwen2 || rule == SplitRule::kLlama3) {
        p = qwen2_piece(p, end, rule == SplitRule::kQwen2 ? 1 : 3);
      } else {
        p = gpt2_piece(p, end, rule == SplitRule::kGpt2Digits);
      }
      take(std::string_view(piece, static_cast<size_t>(p - piece)));
    }
  }

  CharKind kind_at(const char* p) const { return kinds_[decode_utf8(p)]; }

  // The end of the run of characters of `kind` that starts at `p`.
  const char* skip(CharKind kind, const char* p, const char* end) const {
    while (p < end) {
      const char* next = p;
      if (kinds_[decode_utf8(next)] != kind) break;
      p = next;
    }
    return p;
  }
  static const char* skip_newlines(const char* p, const char* end) {
    while (p < end && (*p == '\n' || *p == '\r')) ++p;
    return p;
  }

  // The end of the contraction ('s 't 're 've 'm 'll 'd) at the apostrophe `p`, or null.
  static const char* contraction(const char* p, const char* end, bool any_case);
  // \s+(?!\S)|\s+ : a run of white space leaves its last character to what follows, if anything follows and another is left.
  const char* space_piece(const char* p, const char* end, bool cut_at_newline, bool cut_before_number) const;

  inline const char* qwen2_piece(const char* p, const char* end, int most_numbers) const;
  inline const char* gpt2_piece(const char* p, const char* end, bool single_numbers) const;

  SplitRule rule_;
  CharKinds kinds_;
};

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,most}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
inline const char* Splitter::qwen2_piece(const char* p, const char* end, int most_numbers) const {
  if (*p == '\'') {
    if (const char* after = contraction(p, end, true)) return after;
  }
  const char* next = p;
  const CharKind kind = kinds_[decode_utf8(next)];
  switch (kind) {
    case CharKind::kLetter: return skip(CharKind::kLetter, next, end);
    case CharKind::kNumber:
      for (int n = 1; n < most_numbers && next < end; ++n) {
        const char* after = next;
        if (kinds_[decode_utf8(after)] != CharKind::kNumber) break;
        next = after;
      }
      return next;
    case CharKind::kNewline: return space_piece(p, end, true, false);
    case CharKind::kSpace:
    case CharKind::kOther: break;
  }
  const CharKind next_kind = next < end ? kind_at(next) : CharKind::kSpace;
  if (next_kind == CharKind::kLetter) return skip(CharKind::kLetter, next, end);
  if (kind == CharKind::kOther || (*p == ' ' && next_kind == CharKind::kOther)) {
    return skip_newlines(skip(CharKind::kOther, next, end), end);
  }
  return space_piece(p, end, true, false);
}

// '(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
inline const char* Splitter::gpt2_piece(const char* p, const char* end, bool single_numbers) const {
  if (*p == '\'') {
    if (const char* after = contraction(p, end, false)) return after;
  }
  const char* next = p;
  CharKind kind = kinds_[decode_utf8(next)];
  if (*p == ' ' && next < end) {
    const CharKind next_kind = kind_at(next);
    if (next_kind != CharKind::kSpace && next_kind != CharKind::kNewline && !(single_numbers && next_kind == CharKind::kNumber)) {
      kind = next_kind;
    }
  }
  if (kind == CharKind::kSpace || kind == CharKind::kNewline) return space_piece(p, end, false, single_numbers);
  if (kind == CharKind::kNumber && single_numbers) return next;
  return skip(kind, next, end);
}

}  // namespace trine
