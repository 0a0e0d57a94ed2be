// Compressed files (.gz, .zst) as a stream of bytes.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>

namespace trine {

class InflateStream {
 public:
  virtual ~InflateStream() = default;
  // Fills up to `size` bytes; 0 at the end. Throws UserError naming the file if it is damaged or cut short.
  virtual size_t read(char* buffer, size_t size) = 0;
};

bool is_compressed(const std::filesystem::path& file);  // by its ending
std::unique_ptr<InflateStream> open_compressed(const std::filesystem::path& file);
std::string read_compressed(const std::filesystem::path& file);  // all of it

}  // namespace trine
