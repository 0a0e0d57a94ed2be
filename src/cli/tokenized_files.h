// Data files through a tokenizer by several threads, document by document, in order.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "data/documents.h"
#include "data/sources.h"
#include "text/tokenizer.h"

namespace trine {

struct TokenizedFacts {
  int64_t num_documents = 0;
  int64_t num_tokens = 0;
  int64_t num_bytes = 0;  // of the records read: lines of JSONL, whole text files
};

// Calls `take` with the ids of every document, without end tokens. `text_field` is JSONL's and Parquet's. Throws UserError with the place
// of a record that cannot be used.
TokenizedFacts tokenize_files(const Tokenizer& tokenizer, const SourceFiles& source, const std::string& text_field, int64_t num_threads,
                              const std::function<void(const std::vector<int32_t>&)>& take);

}  // namespace trine
