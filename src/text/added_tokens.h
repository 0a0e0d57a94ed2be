// Finds added tokens in text: leftmost first and, at one place, the longest, as the `tokenizers` library does.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer_file.h"

namespace trine {

class AddedTokenFinder {
 public:
  AddedTokenFinder() = default;
  // `tokens` with the text to look for in `content`; no two may be equal.
  explicit AddedTokenFinder(std::vector<AddedToken> tokens);

  struct Match {
    const AddedToken* token;
    size_t begin, end;  // with the white space that the token takes
  };
  // The first match in `text` from `from` on. White space before a token is taken from `from` on only. Special tokens are passed over if
  // `skip_special`.
  std::optional<Match> find(std::string_view text, size_t from, bool skip_special) const;

  bool empty() const { return tokens_.empty(); }

 private:
  const AddedToken* longest_at(std::string_view text, size_t place) const;

  std::vector<AddedToken> tokens_;  // sorted by content
  std::array<bool, 256> begins_{};  // bytes with which one of them begins
  std::optional<char> only_first_;  // if they all begin with the same byte
};

}  // namespace trine
