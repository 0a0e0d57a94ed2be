// The CPU kernel behind grad_norm.
#pragma once

#include <cstdint>

#include "base/cpu.h"
#include "ops/bfloat16_bits.h"

namespace trine {

// Σ x² of `count` values, float or BFloat16Bits: squares and short sums in fp32, sums of those in double. Every instruction set gives
// the same bits.
template <class Value>
double sum_of_squares_cpu(const Value* values, int64_t count, InstructionSet set);

}  // namespace trine
