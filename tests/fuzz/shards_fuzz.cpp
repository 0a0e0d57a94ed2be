// Shards from elsewhere: refused with a UserError, or every document in them can be read. The checksum is made to fit first, since no
// fuzzer would find one that does, and what lies behind it must not depend on it.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/errors.h"
#include "data/shards.h"
#include "tests/fuzz/memory_file.h"

namespace trine {
namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void mend_checksum(std::string& bytes) {
  constexpr size_t kTrailer = 80, kDigest = 40, kDigits = 32;  // the layout of shards.h
  if (bytes.size() < kTrailer) return;
  const size_t digest_at = bytes.size() - kTrailer + kDigest;
  bytes.replace(digest_at, kDigits, xxh3_hex(std::as_bytes(std::span(bytes).first(digest_at))));
}

void use(const Shard& shard) {
  int64_t num_tokens = 0;
  for (int64_t i = 0; i < shard.num_documents(); ++i) {
    num_tokens += static_cast<int64_t>(token_ids(shard.document(i), shard.token_bytes()).size());
  }
  require(num_tokens == shard.num_tokens());
}

}  // namespace
}  // namespace trine

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static trine::MemoryFile file;
  std::string bytes(reinterpret_cast<const char*>(data), size);
  trine::mend_checksum(bytes);
  file.write({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
  try {
    trine::use(trine::Shard(file.path()));
  } catch (const trine::UserError&) {
  }
  return 0;
}
