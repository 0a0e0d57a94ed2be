// Reading safetensors files: mapped, and checked as a whole before any tensor is handed out.
//
// A file that passes is safe to read with no further checks: every entry lies inside the file, has exactly the bytes that its type
// and shape need, and entries neither overlap nor leave holes, as the format demands.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "checkpoint/stored_dtype.h"

namespace trine {

struct TensorEntry {
  std::string name;
  StoredDtype dtype = StoredDtype::kF32;
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;  // bytes, counted from the start of the data section
};

struct SafetensorsHeader {
  std::vector<TensorEntry> entries;  // in the order of their data
  std::map<std::string, std::string> metadata;
  uint64_t data_start = 0;  // bytes from the start of the file
};

// Parses and validates a whole file's bytes. Throws UserError naming `where` and the tensor.
SafetensorsHeader parse_safetensors(std::span<const std::byte> file, std::string_view where);

// Gives back the memory of mapped file pages that lie wholly in `mapped` (they can be read again): a large file read once should not
// count as resident for the rest of the run.
void release_mapped_pages(std::span<const std::byte> mapped);

class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& file);  // throws UserError

  const std::filesystem::path& path() const { return file_.path(); }
  uint64_t file_bytes() const { return file_.bytes().size(); }
  std::span<const std::byte> all_bytes() const { return file_.bytes(); }
  const std::vector<TensorEntry>& entries() const { return header_.entries; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }

  const TensorEntry* find(std::string_view name) const;              // null if absent
  std::span<const std::byte> data(const TensorEntry& entry) const;   // valid as long as this object; may lie unaligned

 private:
  MappedFile file_;
  SafetensorsHeader header_;
  std::map<std::string_view, const TensorEntry*> by_name_;
};

}  // namespace trine
