#include "data/text_files.h"

#include "base/files.h"

namespace trine {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr size_t kWorthMapping = size_t{1} << 20;  // a shuffle window of small files would run out of mappings

class TextReader : public RecordReader {
 public:
  using RecordReader::RecordReader;

  bool next(Record& record) override {
    if (file_ >= static_cast<int32_t>(files().size())) return false;
    record = {.file = file_, .number = 1};
    auto map = std::make_shared<MappedFile>(files()[file_++]);
    record.bytes = map->text();
    record.keep = map;
    if (record.bytes.size() < kWorthMapping) {
      auto copy = std::make_shared<std::string>(record.bytes);
      record.bytes = *copy;
      record.keep = std::move(copy);
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
