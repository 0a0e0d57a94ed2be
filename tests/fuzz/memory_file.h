// A file in memory with a path: what a fuzz target needs to feed readers of files without waiting for a disk.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>

namespace trine {

class MemoryFile {
 public:
  MemoryFile() : fd_(::memfd_create("fuzz", 0)) {}
  MemoryFile(const MemoryFile&) = delete;
  ~MemoryFile() { ::close(fd_); }

  void write(std::span<const uint8_t> bytes) {
    const bool written = ::ftruncate(fd_, 0) == 0 && ::pwrite(fd_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size());
    if (!written) std::abort();
  }
  std::filesystem::path path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

}  // namespace trine
