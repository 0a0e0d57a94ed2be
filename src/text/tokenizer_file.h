// tokenizer.json and tokenizer_config.json as data: read, checked, and nothing left out in silence. Hostile files end in a UserError.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/bpe.h"
#include "text/splitter.h"

namespace trine {

struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool special = false;
  bool normalized = false;  // matched in the normalised text instead of the raw one
  bool lstrip = false;      // takes the white space before it
  bool rstrip = false;      // takes the white space after it
};

struct TokenizerFile {
  std::vector<std::string> tokens;         // by id, as the file spells them, added tokens included; empty: no token
  std::vector<std::string> vocabulary;     // by id, the bytes of the model's own tokens; empty for what it cannot produce
  std::vector<BpeModel::Merge> merges;     // by rank
  std::vector<AddedToken> added;
  BpeModel::Settings bpe;
  SplitRule split = SplitRule::kQwen2;
  bool normalise = false;                  // to form C
  std::vector<int32_t> prefix, suffix;     // the ids that the post-processor puts around a text
};

// Throws UserError, opened by `where`, naming the part that is missing, malformed or not supported.
TokenizerFile parse_tokenizer_file(std::string_view json, std::string_view where);

// The tokens to which tokenizer_config.json gives a role, by their text.
struct TokenizerConfig {
  std::optional<std::string> eos_token, bos_token, pad_token;
};
TokenizerConfig parse_tokenizer_config(std::string_view json, std::string_view where);

// The bytes that a token in byte-level spelling stands for, or nothing if it has a character outside of that alphabet.
std::optional<std::string> bytes_of_spelling(std::string_view spelling);

// The byte-level spelling of bytes.
std::string spelling_of_bytes(std::string_view bytes);

}  // namespace trine
