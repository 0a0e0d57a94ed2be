// The CPU kernel behind adamw_: no torch in it, one contiguous range per call.
#pragma once

#include <cstdint>

#include "base/cpu.h"
#include "ops/bfloat16_bits.h"

namespace trine {

// Constants of one update, computed once in double.
struct AdamWFactors {
  float clip, decay, one_minus_beta1, beta2, one_minus_beta2, step_size, inverse_sqrt_bias2, eps;
};

// Each type is float or BFloat16Bits. Every instruction set gives the same bits: each step rounds as written, nothing is fused.
template <class Parameter, class Gradient, class Moment>
void adamw_cpu(Parameter* parameter, const Gradient* gradient, Moment* exp_avg, Moment* exp_avg_sq, int64_t count,
               const AdamWFactors& factors, InstructionSet set);

}  // namespace trine
