// Writing safetensors files as a stream: all tensors are declared first, then their bytes come in order, in pieces of any size.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/hashing.h"
#include "checkpoint/safetensors.h"

namespace trine {

struct TensorDeclaration {
  std::string name;
  StoredDtype dtype = StoredDtype::kF32;
  std::vector<int64_t> shape;
};

class SafetensorsWriter {
 public:
  // Data order: the declared order, but wider element types first, so that every tensor is aligned to its element. The same
  // declarations always give the same bytes. Readers of other makes want metadata "format".
  SafetensorsWriter(const std::filesystem::path& file, std::vector<TensorDeclaration> tensors,
                    const std::map<std::string, std::string>& metadata = {{"format", "pt"}});

  const std::vector<TensorEntry>& entries() const { return entries_; }  // in the order in which data must come

  // The next bytes of the file; they may span tensors. Throws std::logic_error if there are more than were declared, and RunStopped
  // for a full disk.
  void write(std::span<const std::byte> bytes);

  // Checks that all was written, and makes the file durable.
  void finish();

  uint64_t file_bytes() const { return writer_.size(); }
  std::string hash() const { return hash_.hex(); }  // XXH3-128 of the whole file so far

 private:
  FileWriter writer_;
  Xxh3 hash_;
  std::vector<TensorEntry> entries_;
  uint64_t data_left_ = 0;
};

}  // namespace trine
