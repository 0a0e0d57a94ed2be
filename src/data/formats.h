// What reads the records of each format, and what turns them into documents.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "data/documents.h"
#include "data/sources.h"

namespace trine {

struct FormatOptions {
  const Tokenizer& tokenizer;
  std::string text_field;
  std::string document_end;                    // auto | eos | none
  int64_t seq_len = 0;                         // of chats, which must fit
  std::filesystem::path chat_template_folder;  // of chats
};

std::unique_ptr<RecordReader> open_records(const SourceFiles& source, const FormatOptions& options);
DocumentMaker document_maker(Format format, const FormatOptions& options);

}  // namespace trine
