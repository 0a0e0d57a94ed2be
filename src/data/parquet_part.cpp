// libtrine_parquet.so: the Parquet reader over Arrow's C++ library. See parquet.h.
#include <arrow/api.h>
#include <arrow/io/file.h>
#include <parquet/arrow/reader.h>
#include <parquet/exception.h>

#include <algorithm>

#include "base/errors.h"
#include "data/record.h"

namespace trine {
namespace {

namespace fs = std::filesystem;

bool holds_strings(const arrow::DataType& type) {
  if (type.id() == arrow::Type::DICTIONARY) return holds_strings(*static_cast<const arrow::DictionaryType&>(type).value_type());
  return type.id() == arrow::Type::STRING || type.id() == arrow::Type::LARGE_STRING;
}

// A row group of the column at a time, in memory.
class ParquetReader : public RecordReader {
 public:
  ParquetReader(std::vector<fs::path> files, std::string column) : RecordReader(std::move(files)), column_(std::move(column)) {}

  bool next(Record& record) override {
    for (;;) {
      if (!reader_ && !open()) return false;
      if (row_ >= static_cast<int64_t>(first_row_.back())) {
        ++file_;
        row_ = 0;
        reader_.reset();
        continue;
      }
      if (!group_ || row_ < group_begin_ || row_ >= group_end_) load_group();
      break;
    }
    record = {.file = file_, .number = row_ + 1, .keep = group_};
    read_cell(row_ - group_begin_, record);
    ++row_;
    return true;
  }

  Cursor tell() const override { return {file_, static_cast<uint64_t>(row_), row_}; }

  void seek(const Cursor& cursor) override {
    if (cursor.file != file_) reader_.reset();
    file_ = cursor.file;
    row_ = static_cast<int64_t>(cursor.offset);
  }

 private:
  template <class T>
  T checked(arrow::Result<T> result) const {
    if (!result.ok()) refuse(result.status().ToString());
    return std::move(result).ValueUnsafe();
  }
  void checked(const arrow::Status& status) const {
    if (!status.ok()) refuse(status.ToString());
  }
  [[noreturn]] void refuse(const std::string& why) const {
    throw UserError("{}: cannot be read as a Parquet file: {}", files()[static_cast<size_t>(file_)].string(), why);
  }

  bool open() {
    if (file_ >= static_cast<int32_t>(files().size())) return false;
    group_.reset();
    try {
      auto input = checked(arrow::io::MemoryMappedFile::Open(files()[static_cast<size_t>(file_)].string(), arrow::io::FileMode::READ));
      reader_ = checked(parquet::arrow::OpenFile(std::move(input), arrow::default_memory_pool()));
    } catch (const parquet::ParquetException& error) {
      refuse(error.what());
    }
    find_column();
    first_row_ = {0};
    for (int i = 0; i < reader_->num_row_groups(); ++i) {
      first_row_.push_back(first_row_.back() + reader_->parquet_reader()->metadata()->RowGroup(i)->num_rows());
    }
    return true;
  }

  void find_column() {
    std::shared_ptr<arrow::Schema> schema;
    checked(reader_->GetSchema(&schema));
    const int index = schema->GetFieldIndex(column_);
    if (index < 0) {
      throw UserError("{}: no column \"{}\" (dataloader.text_field).{}", files()[static_cast<size_t>(file_)].string(), column_,
                      suggest(column_, schema->field_names()));
    }
    const auto& type = *schema->field(index)->type();
    if (!holds_strings(type)) {
      throw UserError("{}: column \"{}\" holds {}, expected strings (dataloader.text_field)", files()[static_cast<size_t>(file_)].string(),
                      column_, type.ToString());
    }
    // Leaf columns are counted over all nested fields; a string field is one leaf, with its name as the whole path.
    leaf_ = reader_->parquet_reader()->metadata()->schema()->ColumnIndex(column_);
  }

  void load_group() {
    const auto after = std::upper_bound(first_row_.begin(), first_row_.end(), row_);
    const int index = static_cast<int>(after - first_row_.begin()) - 1;
    try {
      std::shared_ptr<arrow::Table> table = checked(reader_->ReadRowGroup(index, {leaf_}));
      group_ = table->column(0);
    } catch (const parquet::ParquetException& error) {
      refuse(error.what());
    }
    group_begin_ = first_row_[static_cast<size_t>(index)];
    group_end_ = first_row_[static_cast<size_t>(index) + 1];
    if (group_->length() != group_end_ - group_begin_) refuse("a row group holds fewer rows than it says");
    chunk_ = 0;
    chunk_begin_ = 0;
  }

  void read_cell(int64_t row, Record& record) {
    if (row < chunk_begin_) chunk_ = 0, chunk_begin_ = 0;
    while (row - chunk_begin_ >= group_->chunk(chunk_)->length()) chunk_begin_ += group_->chunk(chunk_++)->length();
    const arrow::Array* values = group_->chunk(chunk_).get();
    int64_t index = row - chunk_begin_;
    if (values->IsNull(index)) {
      record.fault = fmt::format("column \"{}\" is null, expected a string.", column_);
      return;
    }
    if (values->type_id() == arrow::Type::DICTIONARY) {
      const auto& dictionary = static_cast<const arrow::DictionaryArray&>(*values);
      index = dictionary.GetValueIndex(index);
      values = dictionary.dictionary().get();
    }
    record.bytes = values->type_id() == arrow::Type::STRING ? static_cast<const arrow::StringArray*>(values)->GetView(index)
                                                            : static_cast<const arrow::LargeStringArray*>(values)->GetView(index);
  }

  std::string column_;
  int32_t file_ = 0;
  int64_t row_ = 0;  // of file_
  std::unique_ptr<parquet::arrow::FileReader> reader_;
  int leaf_ = 0;
  std::vector<int64_t> first_row_;  // of each row group, and the number of rows
  std::shared_ptr<arrow::ChunkedArray> group_;
  int64_t group_begin_ = 0, group_end_ = 0;
  int chunk_ = 0;
  int64_t chunk_begin_ = 0;  // in the group
};

}  // namespace
}  // namespace trine

extern "C" trine::RecordReader* trine_open_parquet(std::vector<std::filesystem::path> files, const std::string& column) {
  return new trine::ParquetReader(std::move(files), column);
}
