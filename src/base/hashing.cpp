#include "base/hashing.h"

#include <fmt/format.h>
#include <openssl/sha.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/files.h"

namespace trine {

struct Xxh3::State {
  XXH3_state_t* xxh = XXH3_createState();
  ~State() { XXH3_freeState(xxh); }
};

Xxh3::Xxh3() : state_(std::make_unique<State>()) { XXH3_128bits_reset(state_->xxh); }
Xxh3::~Xxh3() = default;

void Xxh3::update(std::span<const std::byte> bytes) { XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size()); }

std::string Xxh3::hex() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_->xxh);
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string xxh3_hex(std::span<const std::byte> bytes) {
  Xxh3 hash;
  hash.update(bytes);
  return hash.hex();
}

std::string xxh3_hex_of_file(const std::filesystem::path& file) { return xxh3_hex(MappedFile(file).bytes()); }

std::string sha256_hex(std::span<const std::byte> bytes) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest);
  std::string hex;
  for (unsigned char byte : digest) hex += fmt::format("{:02x}", byte);
  return hex;
}

}  // namespace trine
