// Functions that kernels need inside vector loops, where a library's cannot be vectorised and differs from one machine to the next.
#pragma once

#include <bit>
#include <cstdint>

#include "ops/clones.h"

namespace trine {

// e^x for x <= 0 to about 1 ulp: x = n·ln 2 + r with |r| <= ln 2 / 2, a polynomial for e^r (Cephes' expf coefficients), times 2^n.
TRINE_INLINE float exp_of_negative(float x) {
  constexpr float kLog2E = 1.44269504088896341f, kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  constexpr float kSmallest = -87.0f;  // below, the result is taken as that of kSmallest, 1.6e-38: nothing beside 1
  x = x < kSmallest ? kSmallest : x;
  // Adding and taking away 1.5·2^23 rounds to the nearest whole number.
  constexpr float kRounder = 12582912.0f;
  const float rounded = x * kLog2E + kRounder;
  const float n = rounded - kRounder;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float e = p * r * r + r + 1.0f;
  // n + 127 from the low bits of the rounded number: a conversion would be undefined for NaN, which passes through here unharmed.
  const uint32_t exponent = std::bit_cast<uint32_t>(rounded) - std::bit_cast<uint32_t>(kRounder) + 127u;
  return e * std::bit_cast<float>(exponent << 23);
}

// 1 / (1 + e^-x), through e^-|x| so that nothing overflows.
TRINE_INLINE float sigmoid(float x) {
  const float e = exp_of_negative(x < 0 ? x : -x);
  return (x < 0 ? e : 1.0f) / (1.0f + e);
}

}  // namespace trine
