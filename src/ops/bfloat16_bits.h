// bfloat16 for kernels without torch: the upper half of an fp32.
#pragma once

#include <bit>
#include <cstdint>

namespace trine {

struct BFloat16Bits {
  uint16_t bits;
};

inline float load(float value) { return value; }
inline float load(BFloat16Bits value) { return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16); }

inline void store(float& to, float value) { to = value; }
// To nearest, ties to even; NaN stays NaN.
inline void store(BFloat16Bits& to, float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t quiet_nan = (bits >> 16) | 0x40u;
  to.bits = static_cast<uint16_t>((bits & 0x7FFFFFFFu) > 0x7F800000u ? quiet_nan : rounded);
}

}  // namespace trine
