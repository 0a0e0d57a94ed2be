// Digests: XXH3-128 for our own files (fast, not against an adversary), SHA-256 for files that others publish.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace trine {

// XXH3-128 fed piece by piece.
class Xxh3 {
 public:
  Xxh3();
  ~Xxh3();
  void update(std::span<const std::byte> bytes);
  std::string hex() const;  // 32 hexadecimal digits of what was fed so far

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string xxh3_hex(std::span<const std::byte> bytes);
std::string xxh3_hex_of_file(const std::filesystem::path& file);
std::string sha256_hex(std::span<const std::byte> bytes);

}  // namespace trine
