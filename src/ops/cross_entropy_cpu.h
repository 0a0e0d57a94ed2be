// The CPU kernels behind linear_cross_entropy: softmax, loss and gradient of one row of logits, in place, without an fp32 copy of it.
// A row has `count` values, float or BFloat16Bits; arithmetic is fp32 with sums in double. Every instruction set gives the same bits.
#pragma once

#include <cstdint>

#include "base/cpu.h"
#include "ops/bfloat16_bits.h"

namespace trine {

// Returns −log softmax(logits)[label]. With `write_gradient` the row becomes (softmax − one_hot(label)) · scale.
template <class Value>
double cross_entropy_row_cpu(Value* logits, int64_t count, int64_t label, float scale, bool write_gradient, InstructionSet set);

// log Σ e^logit, which is all that a later pass over the same logits needs to know.
template <class Value>
double log_sum_exp_row_cpu(const Value* logits, int64_t count, InstructionSet set);

// The row becomes (softmax − one_hot(label)) · scale, its log_sum_exp being `lse`.
template <class Value>
void cross_entropy_gradient_row_cpu(Value* logits, int64_t count, int64_t label, float lse, float scale, InstructionSet set);

}  // namespace trine
