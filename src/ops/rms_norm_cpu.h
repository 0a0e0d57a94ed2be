// The CPU kernels behind rms_norm and add_rms_norm. Value: float or BFloat16Bits; arithmetic is fp32; strides count values.
// Every instruction set gives the same bits.
#pragma once

#include <cstdint>

#include "base/cpu.h"
#include "ops/bfloat16_bits.h"

namespace trine {

// y and rstd of `rows` rows of n values. y is contiguous.
template <class Value>
void rms_norm_rows_cpu(const Value* x, int64_t x_stride, const float* weight, Value* y, float* rstd, int64_t rows, int64_t n, float eps,
                       InstructionSet set);

// sum = x + residual, rounded to Value, then y and rstd of the rounded sum. sum and y are contiguous.
template <class Value>
void add_rms_norm_rows_cpu(const Value* x, int64_t x_stride, const Value* residual, int64_t residual_stride, const float* weight,
                           Value* sum, Value* y, float* rstd, int64_t rows, int64_t n, float eps, InstructionSet set);

// dx = the gradient of x, plus `dsum` where given (contiguous), and dweight = Σ over these rows: fp32, stored, not added.
template <class Value>
void rms_norm_backward_rows_cpu(const Value* dy, int64_t dy_stride, const Value* x, int64_t x_stride, const float* weight,
                                const float* rstd, const Value* dsum, Value* dx, float* dweight, int64_t rows, int64_t n,
                                InstructionSet set);

// out[i] = Σ_b partial[b, i], in order of b and in double.
void sum_blocks_cpu(const float* partial, int64_t blocks, int64_t n, float* out);

}  // namespace trine
