// From a record to a document: its token ids, with the end token, and which of them are to be learned.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/record.h"
#include "text/chat.h"
#include "text/tokenizer.h"

namespace trine {

struct Document {
  std::vector<int32_t> ids;         // empty: the record holds no text, and there is no document
  std::vector<uint8_t> supervised;  // parallel to ids; 0: read, but never a label. Empty: all are labels
  int32_t file = 0;
  int64_t record = 0;
};

// Throws BadRecord or LongChat. Keeps buffers between calls: one thread at a time.
using DocumentMaker = std::function<Document(const Record&)>;

// The token after each document that `document_end` (auto | eos | none) asks for. auto: <|endoftext|> or <|end_of_text|>, with which base
// models of the Qwen, SmolLM and Llama families separate documents, else the tokenizer's end token. Throws UserError if there is none.
std::optional<int32_t> end_token(const Tokenizer& tokenizer, const std::string& document_end);

// The string field `field` of a JSON object on one line, tokenised. `end`, if given, is appended where the ids do not end with it yet.
DocumentMaker json_documents(const Tokenizer& tokenizer, std::string field, std::optional<int32_t> end);
// The whole record as text.
DocumentMaker text_documents(const Tokenizer& tokenizer, std::optional<int32_t> end);
// Token ids as a shard holds them.
DocumentMaker token_documents(std::optional<int32_t> end);
// A chat as one JSON object, rendered; only assistant turns are supervised. More than `seq_len` tokens: LongChat. A chat in which a token
// reaches over the edge of an assistant turn is a BadRecord: no mask would be right.
DocumentMaker chat_documents(const Tokenizer& tokenizer, ChatTemplate chat_template, int64_t seq_len);

}  // namespace trine
