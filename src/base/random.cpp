#include "base/random.h"

#include <cmath>
#include <numbers>

namespace trine {
namespace {

// FNV-1a, so that stream numbers depend on no library's hash.
uint64_t fnv1a(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (unsigned char c : text) hash = (hash ^ c) * 0x100000001b3u;
  return hash;
}

}  // namespace

Philox4 philox4x32(Philox4 counter, std::array<uint32_t, 2> key) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t product0 = kMultiplier0 * counter[0], product1 = kMultiplier1 * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

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

std::array<float, 4> CounterRandom::normal4(uint64_t block) const {
  const Philox4 word = philox4x32({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), static_cast<uint32_t>(stream_),
                                   static_cast<uint32_t>(stream_ >> 32)}, key_);
  std::array<float, 4> result;
  for (int pair = 0; pair < 2; ++pair) {
    const double u1 = (static_cast<double>(word[2 * pair]) + 1.0) * 0x1p-32;  // in (0, 1]: the logarithm stays finite
    const double u2 = static_cast<double>(word[2 * pair + 1]) * 0x1p-32;
    const double radius = std::sqrt(-2.0 * std::log(u1)), angle = 2.0 * std::numbers::pi * u2;
    result[2 * pair] = static_cast<float>(radius * std::cos(angle));
    result[2 * pair + 1] = static_cast<float>(radius * std::sin(angle));
  }
  return result;
}

}  // namespace trine
