#include "text/jinja_form.h"

#include <algorithm>
#include <vector>

namespace trine {
namespace {

bool is_word(char c) { return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c & 0x80); }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v'; }

struct Token {
  bool literal;  // a string, without quotes and escapes
  std::string text;
};

std::string unescaped(std::string_view quoted) {
  std::string out;
  for (size_t i = 0; i < quoted.size(); ++i) {
    if (quoted[i] != '\\' || i + 1 == quoted.size()) {
      out += quoted[i];
      continue;
    }
    switch (quoted[++i]) {
      case 'n': out += '\n'; break;
      case 't': out += '\t'; break;
      case 'r': out += '\r'; break;
      case '\\':
      case '\'':
      case '"': out += quoted[i]; break;
      default: out += {'\\', quoted[i]};  // another escape stays as it is written
    }
  }
  return out;
}

std::vector<Token> tokens_of(std::string_view code) {
  std::vector<Token> out;
  for (size_t i = 0; i < code.size();) {
    if (is_blank(code[i])) {
      ++i;
    } else if (code[i] == '\'' || code[i] == '"') {
      size_t end = i + 1;
      while (end < code.size() && code[end] != code[i]) end += code[end] == '\\' ? 2 : 1;
      end = std::min(end, code.size());
      out.push_back({true, unescaped(code.substr(i + 1, end - i - 1))});
      i = end + 1;
    } else {
      size_t end = i + 1;
      while (is_word(code[i]) && end < code.size() && is_word(code[end])) ++end;
      out.push_back({false, std::string(code.substr(i, end - i))});
      i = end;
    }
  }
  return out;
}

// x['name'] to x.name, and 'a' + 'b' to 'ab' where nothing binds tighter to either.
void simplify(std::vector<Token>& tokens) {
  const auto is = [&](size_t i, std::string_view text) { return i < tokens.size() && !tokens[i].literal && tokens[i].text == text; };
  for (size_t i = 1; i + 2 < tokens.size(); ++i) {
    const Token& before = tokens[i - 1];
    const bool subscript = !before.literal && (is_word(before.text.back()) || before.text == "]" || before.text == ")");
    const std::string& name = tokens[i + 1].text;
    const bool named = tokens[i + 1].literal && !name.empty() && std::all_of(name.begin(), name.end(), is_word);
    if (is(i, "[") && subscript && named && is(i + 2, "]")) {
      tokens[i].text = ".";
      tokens[i + 1].literal = false;
      tokens.erase(tokens.begin() + static_cast<int64_t>(i) + 2);
    }
  }
  for (size_t i = 0; i + 2 < tokens.size();) {
    const bool tighter = is(i + 3, ".") || is(i + 3, "|") || is(i + 3, "[") || is(i + 3, "*") || is(i + 3, "%");
    const bool follows_tighter = i > 0 && (is(i - 1, "*") || is(i - 1, "%") || is(i - 1, "-"));
    if (tokens[i].literal && is(i + 1, "+") && tokens[i + 2].literal && !tighter && !follows_tighter) {
      tokens[i].text += tokens[i + 2].text;
      tokens.erase(tokens.begin() + static_cast<int64_t>(i) + 1, tokens.begin() + static_cast<int64_t>(i) + 3);
    } else {
      ++i;
    }
  }
}

std::string code_form(const std::vector<Token>& tokens) {
  std::string out;
  for (const Token& token : tokens) {
    if (token.literal) {
      out += '"' + std::to_string(token.text.size()) + ':' + token.text + '"';
    } else {
      if (!out.empty() && is_word(out.back()) && is_word(token.text[0])) out += ' ';
      out += token.text;
    }
  }
  return out;
}

// Where the tag that opens with `close`'s counterpart at `i` ends: past its closing mark, outside of string literals.
size_t tag_end(std::string_view source, size_t i, std::string_view close) {
  char quote = 0;
  for (; i < source.size(); ++i) {
    if (quote) {
      if (source[i] == '\\') {
        ++i;
      } else if (source[i] == quote) {
        quote = 0;
      }
    } else if (close != "#}" && (source[i] == '\'' || source[i] == '"')) {
      quote = source[i];
    } else if (source.substr(i, 2) == close) {
      return i + 2;
    }
  }
  return source.size();
}

}  // namespace

std::string jinja_form(std::string_view source) {
  std::string out, text;  // `text`: what is printed as it stands since the last tag
  size_t printed = 0;     // so much of it came from literals, of which tags strip nothing
  const auto flush = [&] {
    if (!text.empty()) out += "T" + std::to_string(text.size()) + ':' + text + '\n';
    text.clear();
    printed = 0;
  };
  const auto strip = [&](auto is_stripped) {
    while (text.size() > printed && is_stripped(text.back())) text.pop_back();
  };
  while (!source.empty() && is_blank(source.back())) source.remove_suffix(1);
  for (size_t i = 0; i < source.size();) {
    const std::string_view open = source.substr(i, 2);
    if (open != "{%" && open != "{{" && open != "{#") {
      text += source[i++];
      continue;
    }
    const std::string_view close = open == "{%" ? "%}" : open == "{{" ? "}}" : "#}";
    const size_t end = tag_end(source, i + 2, close);
    std::string_view code = source.substr(i + 2, end - i - 2);
    code.remove_suffix(std::min<size_t>(2, code.size()));
    const bool strips_before = code.starts_with('-'), keeps_before = code.starts_with('+');
    if (strips_before || keeps_before) code.remove_prefix(1);
    const bool strips_after = code.ends_with('-'), keeps_after = code.ends_with('+');
    if (strips_after || keeps_after) code.remove_suffix(1);

    if (strips_before) {
      strip(is_blank);
    } else if (open != "{{" && !keeps_before) {  // lstrip_blocks: the blanks before a tag that begins its line
      const size_t before = source.substr(0, i).find_last_not_of(" \t");
      if (before == std::string_view::npos || source[before] == '\n') strip([](char c) { return c == ' ' || c == '\t'; });
    }
    i = end;
    if (strips_after) {
      while (i < source.size() && is_blank(source[i])) ++i;
    } else if (open != "{{" && !keeps_after && i < source.size() && source[i] == '\n') {  // trim_blocks
      ++i;
    }
    if (open == "{#") continue;
    std::vector<Token> tokens = tokens_of(code);
    simplify(tokens);
    if (open == "{{" && tokens.size() == 1 && tokens[0].literal) {
      text += tokens[0].text;
      printed = text.size();
      continue;
    }
    flush();
    out += open[1] + code_form(tokens) + '\n';
  }
  flush();
  return out;
}

}  // namespace trine
