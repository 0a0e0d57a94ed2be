#include "data/text_files.h"

#include "base/files.h"
#include "data/inflate.h"

namespace trine {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr size_t kWorthMapping = size_t{1} << 20;  // a shuffle window of small files would run out of mappings

void hold(Record& record, std::string text) {
  auto kept = std::make_shared<std::string>(std::move(text));
  record.bytes = *kept;
  record.keep = std::move(kept);
}

class TextReader : public RecordReader {
 public:
  using RecordReader::RecordReader;

  bool next(Record& record) override {
    if (file_ >= static_cast<int32_t>(files().size())) return false;
    const std::filesystem::path& file = files()[static_cast<size_t>(file_)];
    record = {.file = file_++, .number = 1};
    if (is_compressed(file)) {
      hold(record, read_compressed(file));
    } else if (std::filesystem::file_size(file) < kWorthMapping) {
      hold(record, read_file(file));
    } else {
      auto map = std::make_shared<MappedFile>(file);
      record.bytes = map->text();
      record.keep = std::move(map);
    }
    if (record.bytes.starts_with(kByteOrderMark)) record.bytes.remove_prefix(kByteOrderMark.size());
    return true;
  }
  Cursor tell() const override { return {file_, 0, 0}; }
  void seek(const Cursor& cursor) override { file_ = cursor.file; }

 private:
  int32_t file_ = 0;
};

}  // namespace

std::unique_ptr<RecordReader> make_text_reader(std::vector<std::filesystem::path> files) {
  return std::make_unique<TextReader>(std::move(files));
}

}  // namespace trine
