// The CPU kernels behind swiglu. Value: float or BFloat16Bits; arithmetic is fp32. Every instruction set gives the same bits.
#pragma once

#include <cstdint>

#include "base/cpu.h"
#include "ops/bfloat16_bits.h"

namespace trine {

// Inputs are rows of n values whose distance in values is their stride (the two may be halves of one buffer); results are contiguous.
template <class Value>
struct SwiGluInputs {
  const Value *gate, *up;
  int64_t gate_stride, up_stride, rows, n;
};

// y = silu(gate) · up
template <class Value>
void swiglu_rows_cpu(const SwiGluInputs<Value>& in, Value* y, InstructionSet set);

// dgate = dy · up · σ(gate) · (1 + gate · (1 − σ(gate))), dup = dy · silu(gate). dy is contiguous.
template <class Value>
void swiglu_backward_rows_cpu(const SwiGluInputs<Value>& in, const Value* dy, Value* dgate, Value* dup, InstructionSet set);

}  // namespace trine
