// A file that readers which take a path can be fuzzed through: written anew for every input.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "base/log.h"

namespace trine::fuzz {

inline void require(bool holds) {
  if (!holds) std::abort();
}

inline std::string_view as_text(const uint8_t* data, size_t size) { return {reinterpret_cast<const char*>(data), size}; }

inline void be_quiet() {
  static const bool once = (log::set_level(log::Level::kError), true);
  (void)once;
}

// `name` gives the ending; one file per name and process, in memory where the system has such a place.
inline std::filesystem::path file_of(const std::string& name, std::string_view content) {
  static const std::filesystem::path place = ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : std::filesystem::temp_directory_path().string();
  const std::filesystem::path file = place / ("trine-fuzz-" + std::to_string(::getpid()) + "-" + name);
  std::ofstream(file, std::ios::binary | std::ios::trunc).write(content.data(), static_cast<std::streamsize>(content.size()));
  return file;
}

}  // namespace trine::fuzz
