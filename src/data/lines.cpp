#include "data/lines.h"

#include <algorithm>
#include <cstring>

#include "base/errors.h"
#include "base/files.h"
#include "base/format.h"
#include "data/inflate.h"

namespace trine {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr size_t kLongestLine = size_t{1} << 30;  // a guard against a compressed file that never has a newline

// One open file as a sequence of raw lines (without the newline).
class LineFile {
 public:
  virtual ~LineFile() = default;
  virtual bool next(std::string_view& line, std::shared_ptr<const void>& keep) = 0;
  virtual uint64_t offset() const = 0;  // in the (decompressed) bytes
  virtual void seek(uint64_t offset) = 0;
};

class MappedLines : public LineFile {
 public:
  explicit MappedLines(const fs::path& file) : map_(std::make_shared<MappedFile>(file)) {}

  bool next(std::string_view& line, std::shared_ptr<const void>& keep) override {
    const std::string_view text = map_->text();
    if (offset_ >= text.size()) return false;
    const size_t end = std::min(text.find('\n', offset_), text.size());
    line = text.substr(offset_, end - offset_);
    keep = map_;
    offset_ = std::min(end + 1, text.size());
    return true;
  }
  uint64_t offset() const override { return offset_; }
  void seek(uint64_t offset) override { offset_ = std::min<uint64_t>(offset, map_->text().size()); }

 private:
  std::shared_ptr<MappedFile> map_;
  uint64_t offset_ = 0;
};

class CompressedLines : public LineFile {
 public:
  explicit CompressedLines(const fs::path& file) : file_(file), stream_(open_compressed(file)) {}

  bool next(std::string_view& line, std::shared_ptr<const void>& keep) override {
    auto text = std::make_shared<std::string>();
    for (;;) {
      const std::string_view rest = std::string_view(buffer_).substr(used_);
      const size_t end = rest.find('\n');
      text->append(rest.substr(0, end));
      if (text->size() > kLongestLine) {
        throw UserError("{}: a line is longer than {}; is this JSONL, with one record on each line?", file_.string(),
                        in_bytes(kLongestLine));
      }
      if (end != std::string_view::npos) {
        used_ += end + 1;
        offset_ += text->size() + 1;
        break;
      }
      if (!refill()) {
        if (text->empty()) return false;
        offset_ += text->size();
        break;
      }
    }
    line = *text;
    keep = text;
    return true;
  }
  uint64_t offset() const override { return offset_; }

  // There is no way into the middle of a compressed file but through all that lies before.
  void seek(uint64_t offset) override {
    if (offset < offset_) {
      stream_ = open_compressed(file_);
      buffer_.clear();
      used_ = offset_ = 0;
    }
    while (offset_ < offset) {
      if (used_ == buffer_.size() && !refill()) return;
      const uint64_t step = std::min<uint64_t>(offset - offset_, buffer_.size() - used_);
      used_ += step;
      offset_ += step;
    }
  }

 private:
  bool refill() {
    constexpr size_t kBuffer = size_t{1} << 20;
    buffer_.resize(kBuffer);
    used_ = 0;
    buffer_.resize(stream_->read(buffer_.data(), kBuffer));
    return !buffer_.empty();
  }

  fs::path file_;
  std::unique_ptr<InflateStream> stream_;
  std::string buffer_;
  size_t used_ = 0;
  uint64_t offset_ = 0;
};

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r\v\f") == std::string_view::npos; }

class LineReader : public RecordReader {
 public:
  using RecordReader::RecordReader;

  bool next(Record& record) override {
    for (;;) {
      if (!open_ && !open()) return false;
      std::string_view line;
      std::shared_ptr<const void> keep;
      if (!open_->next(line, keep)) {
        cursor_ = {cursor_.file + 1, 0, 0};
        open_.reset();
        continue;
      }
      if (cursor_.number == 0 && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
      if (line.ends_with('\r')) line.remove_suffix(1);
      cursor_.offset = open_->offset();
      ++cursor_.number;
      if (is_blank(line)) continue;
      record = {.file = cursor_.file, .number = cursor_.number, .bytes = line, .keep = std::move(keep)};
      return true;
    }
  }

  Cursor tell() const override { return cursor_; }

  void seek(const Cursor& cursor) override {
    if (cursor.file != cursor_.file) open_.reset();
    cursor_ = cursor;
    if (open_) open_->seek(cursor.offset);
  }

 private:
  bool open() {
    if (cursor_.file >= static_cast<int32_t>(files().size())) return false;
    const fs::path& file = files()[cursor_.file];
    if (is_compressed(file)) {
      open_ = std::make_unique<CompressedLines>(file);
    } else {
      open_ = std::make_unique<MappedLines>(file);
    }
    open_->seek(cursor_.offset);
    return true;
  }

  Cursor cursor_;
  std::unique_ptr<LineFile> open_;
};

}  // namespace

std::unique_ptr<RecordReader> make_line_reader(std::vector<fs::path> files) { return std::make_unique<LineReader>(std::move(files)); }

}  // namespace trine
