// Four billion initial weights are drawn at the start of a large random run. The logarithm, sine and cosine of Box-Muller are written
// out here because a library's cannot be vectorised, and differ from one machine to the next.
#include "base/random_cpu.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "base/random.h"

namespace trine {
namespace {

#define TRINE_INLINE __attribute__((always_inline)) inline

TRINE_INLINE Philox4 philox(Philox4 counter, std::array<uint32_t, 2> key) {
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

// An integer below 2^52 as a double: placed into the mantissa of 2^52, which is then taken away. Not every instruction set converts 64-bit
// integers.
TRINE_INLINE double to_double(uint64_t value) { return std::bit_cast<double>(value | 0x4330000000000000u) - 0x1p52; }

// sqrt(-2 ln u) of u = (word + 1) / 2^32, which lies in (0, 1]. With u = m · 2^e and m in [sqrt(1/2), sqrt(2)):
// ln u = e ln 2 + 2 artanh(s), s = (m - 1)/(m + 1), and the series of artanh up to s^13 leaves 2e-12.
TRINE_INLINE double radius_of(uint32_t word) {
  const uint64_t bits = std::bit_cast<uint64_t>(to_double(uint64_t{word} + 1));
  const double mantissa = std::bit_cast<double>((bits & 0x000FFFFFFFFFFFFFu) | 0x3FF0000000000000u);
  const bool large = mantissa > std::numbers::sqrt2;
  const double m = large ? mantissa * 0.5 : mantissa;
  const double exponent = to_double(bits >> 52) - (large ? 1023.0 + 32 - 1 : 1023.0 + 32);
  const double s = (m - 1) / (m + 1), t = s * s;
  const double series = 1 + t * (1.0 / 3 + t * (1.0 / 5 + t * (1.0 / 7 + t * (1.0 / 9 + t * (1.0 / 11 + t * (1.0 / 13))))));
  return std::sqrt(-2 * (exponent * std::numbers::ln2 + 2 * s * series));
}

struct Direction {
  double cosine, sine;
};

// Cosine and sine of 2π · word / 2^32: a quarter turn nearest to the angle, taken off exactly in integers, and Taylor series on the
// remaining ±π/4, which leave 7e-12.
TRINE_INLINE Direction direction_of(uint32_t word) {
  const uint32_t quarter = (word + (1u << 29)) >> 30;
  const auto rest = static_cast<int32_t>(word - (quarter << 30));
  const double x = static_cast<double>(rest) * (2 * std::numbers::pi * 0x1p-32), t = x * x;
  const double sine =
      x * (1 + t * (-1.0 / 6 + t * (1.0 / 120 + t * (-1.0 / 5040 + t * (1.0 / 362880 + t * (-1.0 / 39916800))))));
  const double cosine =
      1 + t * (-1.0 / 2 + t * (1.0 / 24 + t * (-1.0 / 720 + t * (1.0 / 40320 + t * (-1.0 / 3628800 + t * (1.0 / 479001600))))));
  const bool swap = (quarter & 1u) != 0;
  const uint64_t cosine_sign = uint64_t{(quarter + 1) & 2u} << 62, sine_sign = uint64_t{quarter & 2u} << 62;
  return {.cosine = std::bit_cast<double>(std::bit_cast<uint64_t>(swap ? sine : cosine) ^ cosine_sign),
          .sine = std::bit_cast<double>(std::bit_cast<uint64_t>(swap ? cosine : sine) ^ sine_sign)};
}

using Key = std::array<uint32_t, 2>;
constexpr int64_t kLanes = kWordBlocks;  // blocks worked on together

TRINE_INLINE void draw_lanes(Key key, uint64_t stream, uint64_t first_block, uint32_t (*words)[kLanes]) {
  const auto stream_low = static_cast<uint32_t>(stream), stream_high = static_cast<uint32_t>(stream >> 32);
  for (int64_t i = 0; i < kLanes; ++i) {
    const uint64_t block = first_block + static_cast<uint64_t>(i);
    const Philox4 word = philox({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), stream_low, stream_high}, key);
    for (int k = 0; k < 4; ++k) words[k][i] = word[static_cast<size_t>(k)];
  }
}

TRINE_AVX512 void draw_lanes_avx512(Key key, uint64_t stream, uint64_t first_block, uint32_t (*words)[kLanes]) {
  draw_lanes(key, stream, first_block, words);
}
TRINE_AVX2 void draw_lanes_avx2(Key key, uint64_t stream, uint64_t first_block, uint32_t (*words)[kLanes]) {
  draw_lanes(key, stream, first_block, words);
}

TRINE_INLINE void draw(Key key, uint64_t stream, uint64_t first_block, int64_t num_blocks, float* out) {
  uint32_t words[4][kLanes];
  float values[4][kLanes];
  for (int64_t begin = 0; begin < num_blocks; begin += kLanes) {
    draw_lanes(key, stream, first_block + static_cast<uint64_t>(begin), words);
    for (int pair = 0; pair < 4; pair += 2) {
      for (int64_t i = 0; i < kLanes; ++i) {
        const double radius = radius_of(words[pair][i]);
        const Direction direction = direction_of(words[pair + 1][i]);
        values[pair][i] = static_cast<float>(radius * direction.cosine);
        values[pair + 1][i] = static_cast<float>(radius * direction.sine);
      }
    }
    const int64_t count = std::min(kLanes, num_blocks - begin);
    for (int64_t i = 0; i < count; ++i) {
      for (int k = 0; k < 4; ++k) out[4 * (begin + i) + k] = values[k][i];
    }
  }
}

TRINE_AVX512 void draw_avx512(Key key, uint64_t stream, uint64_t first_block, int64_t num_blocks, float* out) {
  draw(key, stream, first_block, num_blocks, out);
}
TRINE_AVX2 void draw_avx2(Key key, uint64_t stream, uint64_t first_block, int64_t num_blocks, float* out) {
  draw(key, stream, first_block, num_blocks, out);
}

}  // namespace

Philox4 philox4x32(Philox4 counter, std::array<uint32_t, 2> key) { return philox(counter, key); }

void draw_normals(std::array<uint32_t, 2> key, uint64_t stream, uint64_t first_block, int64_t num_blocks, float* out, InstructionSet set) {
  switch (set) {
    case InstructionSet::kAvx512Bf16:
    case InstructionSet::kAvx512: return draw_avx512(key, stream, first_block, num_blocks, out);
    case InstructionSet::kAvx2: return draw_avx2(key, stream, first_block, num_blocks, out);
    case InstructionSet::kPortable: return draw(key, stream, first_block, num_blocks, out);
  }
}

void draw_words(Key key, uint64_t stream, uint64_t first_block, uint32_t (*words)[kWordBlocks], InstructionSet set) {
  switch (set) {
    case InstructionSet::kAvx512Bf16:
    case InstructionSet::kAvx512: return draw_lanes_avx512(key, stream, first_block, words);
    case InstructionSet::kAvx2: return draw_lanes_avx2(key, stream, first_block, words);
    case InstructionSet::kPortable: return draw_lanes(key, stream, first_block, words);
  }
}

}  // namespace trine
