#include "base/random.h"

#include "base/random_cpu.h"

namespace trine {
namespace {

// FNV-1a, so that stream numbers depend on no library's hash.
uint64_t fnv1a(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (unsigned char c : text) hash = (hash ^ c) * 0x100000001b3u;
  return hash;
}

}  // namespace

CounterRandom::CounterRandom(uint64_t seed, std::string_view stream)
    : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}, stream_(fnv1a(stream)) {}

uint64_t CounterRandom::bits(uint64_t index) const {
  const Philox4 block = philox4x32({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), static_cast<uint32_t>(stream_),
                                    static_cast<uint32_t>(stream_ >> 32)}, key_);
  return (uint64_t{block[0]} << 32) | block[1];
}

double CounterRandom::uniform(uint64_t index) const { return static_cast<double>(bits(index) >> 11) * 0x1p-53; }

uint64_t CounterRandom::below(uint64_t index, uint64_t bound) const {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(bits(index)) * bound) >> 64);
}

void CounterRandom::normals(uint64_t first_block, int64_t num_blocks, float* out) const {
  draw_normals(key_, stream_, first_block, num_blocks, out, instruction_set());
}

}  // namespace trine
