// Files for the checkpoint tests: a temporary folder, and safetensors files made by hand, right and wrong.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "base/errors.h"
#include "base/files.h"
#include "checkpoint/safetensors_writer.h"

namespace trine::test {

namespace fs = std::filesystem;

class TemporaryPlace {
 public:
  TemporaryPlace() {
    // In memory where that exists: the tests make hundreds of small durable files, and wait for no disk.
    const fs::path memory = "/dev/shm";
    std::string name = ((::access(memory.c_str(), W_OK) == 0 ? memory : fs::temp_directory_path()) / "trine-test-XXXXXX").string();
    if (!::mkdtemp(name.data())) throw std::runtime_error("mkdtemp");
    path_ = name;
  }
  ~TemporaryPlace() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  fs::path operator/(const std::string& name) const { return path_ / name; }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

inline void write_text(const fs::path& file, std::string_view content) {
  std::ofstream(file, std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
}

// The bytes of a safetensors file with this header text and this much data (bytes 0, 1, 2, ...).
inline std::string raw_safetensors(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string file(sizeof(length), '\0');
  std::memcpy(file.data(), &length, sizeof(length));
  file += header;
  for (size_t i = 0; i < data_bytes; ++i) file += static_cast<char>(i);
  return file;
}

struct FloatTensor {
  std::string name;
  std::vector<int64_t> shape;
  float first = 0;  // values first, first + 1, ...
};

inline std::vector<float> values_of(const FloatTensor& tensor) {
  std::vector<float> values(static_cast<size_t>(element_count(tensor.shape)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = tensor.first + static_cast<float>(i);
  return values;
}

inline void write_floats(const fs::path& file, const std::vector<FloatTensor>& tensors) {
  std::vector<TensorDeclaration> declarations;
  for (const FloatTensor& tensor : tensors) declarations.push_back({tensor.name, StoredDtype::kF32, tensor.shape});
  SafetensorsWriter writer(file, declarations);
  for (const FloatTensor& tensor : tensors) {
    const std::vector<float> values = values_of(tensor);
    writer.write(std::as_bytes(std::span(values)));
  }
  writer.finish();
}

// The message of the UserError that `action` throws; empty if it throws none.
inline std::string user_error(const std::function<void()>& action) {
  try {
    action();
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

}  // namespace trine::test
