#include "data/formats.h"

#include "base/errors.h"
#include "data/lines.h"
#include "data/parquet.h"
#include "data/shards.h"
#include "data/text_files.h"

namespace trine {

std::unique_ptr<RecordReader> open_records(const SourceFiles& source, const FormatOptions& options) {
  switch (source.format) {
    case Format::kJsonl:
    case Format::kChat: return make_line_reader(source.files);
    case Format::kText: return make_text_reader(source.files);
    case Format::kParquet: return make_parquet_reader(source.files, options.text_field);
    case Format::kShards: return make_shard_reader(source.files, tokenizer_fingerprint(options.tokenizer));
  }
  throw std::logic_error("a format without a reader");
}

DocumentMaker document_maker(Format format, const FormatOptions& options) {
  const Tokenizer& tokenizer = options.tokenizer;
  if (format == Format::kChat) {
    if (options.chat_template_folder.empty()) throw UserError("the dataset chat needs a chat template: give model.hf_assets_path");
    return chat_documents(tokenizer, ChatTemplate::from_folder(options.chat_template_folder), options.seq_len);
  }
  const std::optional<int32_t> end = end_token(tokenizer, options.document_end);
  switch (format) {
    case Format::kJsonl: return json_documents(tokenizer, options.text_field, end);
    case Format::kShards: return token_documents(end);
    default: return text_documents(tokenizer, end);
  }
}

}  // namespace trine
