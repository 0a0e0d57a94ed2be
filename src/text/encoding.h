// One call of encode: from a text to its ids, and to the tokens' ends if they are asked for.
#pragma once

#include "text/tokenizer_tables.h"

namespace trine {

// Appends the ids of `text` to `ids`, and where every token ends to `ends` unless it is null (see Tokenizer::encode_with_ends).
void encode_text(const Tokenizer::Tables& tables, Tokenizer::Scratch::State& scratch, std::string_view text, const EncodeOptions& options,
                 std::vector<int32_t>& ids, std::vector<int64_t>* ends);

}  // namespace trine
