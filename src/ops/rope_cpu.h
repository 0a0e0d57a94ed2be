// The CPU kernel behind rope. Value: float or BFloat16Bits; arithmetic is fp32, each step rounded as written, so that an fp32 result has
// the bits of the plain formula in every instruction set.
#pragma once

#include <cstdint>

#include "base/cpu.h"
#include "ops/bfloat16_bits.h"

namespace trine {

// The row of the tables for token t = b·S + s: positions[t] where positions are given, else t or s.
struct RopeRows {
  const float *cos, *sin;             // rows of `half` values, contiguous
  const int64_t* positions = nullptr;
  bool one_per_token = false;         // tables are [B, S, half]
  int64_t length = 0, half = 0;       // S, D/2
};

// Distances in values; the values of one head lie side by side.
struct HeadStrides {
  int64_t batch, position, head;
};

// Turns tokens begin..end (numbered b·S + s) with all their heads, forwards or backwards.
template <class Value>
void rope_cpu(const Value* x, HeadStrides x_strides, Value* y, HeadStrides y_strides, const RopeRows& rows, int64_t num_heads,
              int64_t begin, int64_t end, bool backwards, InstructionSet set);

// Which row of the tables token t uses.
inline int64_t rope_row(const RopeRows& rows, int64_t t) {
  return rows.positions ? rows.positions[t] : rows.one_per_token ? t : t % rows.length;
}

}  // namespace trine
