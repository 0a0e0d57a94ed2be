// The CPU kernels behind qk_norm_rope: tokens (numbered b·S + s) with all their heads. Value: float or BFloat16Bits; arithmetic is fp32.
// Every instruction set gives the same bits.
#pragma once

#include "ops/rope_cpu.h"

namespace trine {

// y gets the normalised and turned heads, rstd one number for each head of each token ([B, S, H]).
template <class Value>
void qk_norm_rope_cpu(const Value* x, HeadStrides x_strides, const float* weight, float eps, Value* y, HeadStrides y_strides, float* rstd,
                      const RopeRows& rows, int64_t num_heads, int64_t begin, int64_t end, InstructionSet set);

// dx from dy, and dweight (fp32, D values) = Σ over these tokens, stored, not added.
template <class Value>
void qk_norm_rope_backward_cpu(const Value* dy, HeadStrides dy_strides, const Value* x, HeadStrides x_strides, const float* weight,
                               const float* rstd, Value* dx, HeadStrides dx_strides, float* dweight, const RopeRows& rows,
                               int64_t num_heads, int64_t begin, int64_t end, InstructionSet set);

}  // namespace trine
