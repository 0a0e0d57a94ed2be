// Records: the raw units of a source (a line, a file, a table row, a run of token ids) and the reader that walks them.
//
// A reader is a cursor over the files of one source. Everything above it (shuffle, epochs, mixes, resuming) needs only that a cursor can
// be told, kept as three numbers and gone back to.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace trine {

struct Record {
  int32_t file = 0;      // index into RecordReader::files()
  int64_t number = 0;    // line, row or document of that file, from 1
  std::string_view bytes;
  std::shared_ptr<const void> keep;  // what holds `bytes`: a mapped file or a string
  int32_t token_bytes = 0;           // 0: `bytes` is text; 2 or 4: it is token ids of that width
  std::string fault;                 // not empty: the reader found this record bad, and why
};

struct Cursor {
  int32_t file = 0;
  uint64_t offset = 0;  // bytes (lines), rows (Parquet), documents (shards)
  int64_t number = 0;   // records (lines, also blank ones) of this file before the cursor
  bool operator==(const Cursor&) const = default;
};

class RecordReader {
 public:
  explicit RecordReader(std::vector<std::filesystem::path> files) : files_(std::move(files)) {}
  virtual ~RecordReader() = default;

  // The next record; false after the last one of the last file. Throws UserError for a file that cannot be read.
  virtual bool next(Record& record) = 0;
  virtual Cursor tell() const = 0;
  virtual void seek(const Cursor& cursor) = 0;

  const std::vector<std::filesystem::path>& files() const { return files_; }

 private:
  std::vector<std::filesystem::path> files_;
};

// A record that cannot be used, for a reason that `on_bad_record` decides about. The message says what is wrong, not where.
class BadRecord : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A chat with more tokens than a row; `on_long_chat` decides.
class LongChat : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace trine
