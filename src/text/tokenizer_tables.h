// What a Tokenizer is made of, for the files that implement it.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/splitter.h"
#include "text/tokenizer.h"
#include "text/tokenizer_file.h"
#include "text/utf8.h"

namespace trine {

struct Tokenizer::Scratch::State {
  BpeModel::Workspace work;
  std::string valid;   // the text with ill-formed bytes replaced
  std::string normal;  // a stretch of it in form C
  EditMap valid_edits, normal_edits;
};

struct Tokenizer::Tables {
  explicit Tables(TokenizerFile file);

  std::vector<std::string> bytes;  // by id: what decoding gives
  std::vector<bool> special;       // by id
  std::unordered_map<std::string, int32_t> ids;  // by the file's spelling
  BpeModel bpe;
  Splitter splitter;
  bool normalise;
  AddedTokenFinder raw_tokens, normalized_tokens;
  std::vector<int32_t> prefix, suffix;
  bool lines_are_apart = true;  // no added token reaches over a line end, or takes white space before it
  bool drops_bytes = false;
  int32_t unknown;
  std::optional<int32_t> eos, bos, pad;

  // Idle scratches of Tokenizer::encode.
  mutable std::mutex mutex;
  mutable std::vector<std::unique_ptr<Scratch::State>> idle;
};

}  // namespace trine
