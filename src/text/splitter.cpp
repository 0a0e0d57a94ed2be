#include "text/splitter.h"

#include <array>
#include <utility>

namespace trine {
namespace {

constexpr std::array<std::pair<SplitRule, std::string_view>, 3> kRegexes = {{
    {SplitRule::kQwen2,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {SplitRule::kLlama3,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {SplitRule::kGpt2, R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
}};

}  // namespace

std::optional<SplitRule> split_rule_of_regex(std::string_view regex) {
  for (const auto& [rule, text] : kRegexes) {
    if (text == regex) return rule;
  }
  // GPT-2's own spelling of the same expression.
  if (regex == R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)") return SplitRule::kGpt2;
  return std::nullopt;
}

std::string_view split_regex(SplitRule rule) {
  for (const auto& [known, text] : kRegexes) {
    if (known == rule) return text;
  }
  return split_regex(SplitRule::kGpt2);  // kGpt2Digits, after the digits
}

const char* Splitter::contraction(const char* p, const char* end, bool any_case) {
  const auto letter = [&](int i) {
    if (p + i >= end) return '\0';
    const char c = p[i];
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  const char first = letter(1);
  switch (first) {
    case 's':
    case 't':
    case 'm':
    case 'd': return p + 2;
    case 'r':
    case 'v': return letter(2) == 'e' ? p + 3 : nullptr;
    case 'l': return letter(2) == 'l' ? p + 3 : nullptr;
    // U+017F, the long s, is an s in lower case.
    case '\xC5': return any_case && letter(2) == '\xBF' ? p + 3 : nullptr;
    default: return nullptr;
  }
}

const char* Splitter::space_piece(const char* p, const char* end, bool cut_at_newline, bool cut_before_number) const {
  const char* after_newline = nullptr;
  const char* last = p;  // the last character of the run
  const char* run_end = p;
  CharKind following = CharKind::kSpace;
  while (run_end < end) {
    const char* next = run_end;
    following = kinds_[decode_utf8(next)];
    if (following != CharKind::kSpace && following != CharKind::kNewline) break;
    last = run_end;
    run_end = next;
    if (following == CharKind::kNewline) after_newline = run_end;
  }
  if (cut_at_newline && after_newline) return after_newline;  // \s*[\r\n]+
  const bool at_end = run_end == end || (cut_before_number && following == CharKind::kNumber);
  return at_end || last == p ? run_end : last;
}

}  // namespace trine
