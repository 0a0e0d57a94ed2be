// The CPU kernel behind linear_cross_entropy: softmax, loss and gradient of one row of logits, in place, without an fp32 copy of it.
#pragma once

#include <cstdint>

#include "base/cpu.h"
#include "ops/bfloat16_bits.h"

namespace trine {

// `logits`: one row of `count` values, float or BFloat16Bits. Returns −log softmax(logits)[label], computed in fp32 with sums in double.
// With `write_gradient` the row becomes (softmax − one_hot(label)) · scale. Every instruction set gives the same bits.
template <class Value>
double cross_entropy_row_cpu(Value* logits, int64_t count, int64_t label, float scale, bool write_gradient, InstructionSet set);

}  // namespace trine
