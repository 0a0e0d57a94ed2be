// Shards: documents as token ids in a file that is mapped and read in place, so that a run starts without tokenising.
//
// Layout, little-endian, version 1 (N documents, T tokens, W = 2 or 4 bytes per token):
//
//   0          8   "TRNSHARD"
//   8          4   version
//   12         4   W
//   16       W·T   token ids, document after document, without begin or end tokens that were not in the tokenizer's output
//   ...     0..7   zeros, up to a multiple of 8
//   ...  8·(N+1)   first token of each document, and T
//   ...       80   trailer: N u64, T u64, vocabulary size u64, tokenizer fingerprint (16 bytes), XXH3-128 of all before it (32 hex digits),
//                  "DRAHSNRT"
//
// The trailer is written last: a file that was cut short has none, and is refused.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/files.h"
#include "base/hashing.h"
#include "data/record.h"
#include "text/tokenizer.h"

namespace trine {

// Writes one shard. Documents are added in order; finish() completes the file.
class ShardWriter {
 public:
  // `vocab_size` bounds the ids and picks the width. `tokenizer_fingerprint`: 32 hex digits.
  ShardWriter(const std::filesystem::path& file, int64_t vocab_size, std::string tokenizer_fingerprint);
  void add(std::span<const int32_t> ids);  // throws UserError for an id outside the vocabulary
  void finish();
  int64_t num_documents() const { return static_cast<int64_t>(starts_.size()) - 1; }
  int64_t num_tokens() const { return static_cast<int64_t>(starts_.back()); }

 private:
  void write(std::span<const std::byte> bytes);

  std::filesystem::path file_;
  FileWriter writer_;
  Xxh3 digest_;
  int64_t vocab_size_;
  int32_t token_bytes_;
  std::string tokenizer_fingerprint_;
  std::vector<uint64_t> starts_{0};
  std::vector<std::byte> buffer_;
};

// A shard opened for reading; every count and offset in it has been checked against the file's size, and its digest verified.
class Shard {
 public:
  explicit Shard(const std::filesystem::path& file);  // throws UserError saying what does not fit

  int64_t num_documents() const { return num_documents_; }
  int64_t num_tokens() const { return num_tokens_; }
  int64_t vocab_size() const { return vocab_size_; }
  int32_t token_bytes() const { return token_bytes_; }
  const std::string& tokenizer_fingerprint() const { return tokenizer_fingerprint_; }
  std::string_view document(int64_t index) const;  // its ids, token_bytes() each

 private:
  MappedFile map_;
  int64_t num_documents_ = 0, num_tokens_ = 0, vocab_size_ = 0;
  int32_t token_bytes_ = 0;
  std::string tokenizer_fingerprint_;
  const uint64_t* starts_ = nullptr;
};

// A digest of what every id stands for: 32 hex digits. Token ids are worth something only with a tokenizer of the same fingerprint.
std::string tokenizer_fingerprint(const Tokenizer& tokenizer);

// The ids of a record's or document's bytes.
std::vector<int32_t> token_ids(std::string_view bytes, int32_t token_bytes);

// The documents of shards. A shard made with another tokenizer than `tokenizer_fingerprint` is refused.
std::unique_ptr<RecordReader> make_shard_reader(std::vector<std::filesystem::path> files, std::string tokenizer_fingerprint);

}  // namespace trine
