// The row sums that every kernel with a normalisation in it needs. Sums run in lanes of fixed width, so that every instruction set gives
// the same bits.
#pragma once

#include <cmath>
#include <cstdint>

#include "ops/bfloat16_bits.h"
#include "ops/clones.h"

namespace trine {

// Rows whose weight gradients are summed together; a constant, so that the sum depends on neither threads nor calls.
inline constexpr int64_t kNormBlockRows = 64;

inline constexpr int64_t kNormLanes = 32;

// Σ term(i) for i in 0..n.
template <class Term>
TRINE_INLINE float sum_in_lanes(int64_t n, const Term& term) {
  float lanes[kNormLanes] = {};
  const int64_t whole = n / kNormLanes * kNormLanes;
  for (int64_t i = 0; i < whole; i += kNormLanes) {
    for (int64_t k = 0; k < kNormLanes; ++k) lanes[k] += term(i + k);
  }
  for (int64_t i = whole; i < n; ++i) lanes[i - whole] += term(i);
  for (int64_t width = kNormLanes / 2; width > 0; width /= 2) {
    for (int64_t k = 0; k < width; ++k) lanes[k] += lanes[k + width];
  }
  return lanes[0];
}

// 1 / sqrt(mean(x²) + eps)
template <class Value>
TRINE_INLINE float rstd_of_row(const Value* x, int64_t n, float eps) {
  const float squares = sum_in_lanes(n, [&](int64_t i) __attribute__((always_inline)) { return load(x[i]) * load(x[i]); });
  return 1.0f / std::sqrt(squares / static_cast<float>(n) + eps);
}

}  // namespace trine
