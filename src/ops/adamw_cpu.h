// The CPU kernel behind adamw_: no torch in it, one contiguous range per call.
#pragma once

#include <array>
#include <cstdint>

#include "base/cpu.h"
#include "ops/bfloat16_bits.h"

namespace trine {

// Constants of one update, computed once in double.
template <class Real>
struct AdamWFactors {
  Real clip, decay, one_minus_beta1, beta2, one_minus_beta2, step_size, inverse_sqrt_bias2, eps;
};

// Each type is float or BFloat16Bits. Every instruction set gives the same bits: each step rounds as written, nothing is fused.
template <class Parameter, class Gradient, class Moment>
void adamw_cpu(Parameter* parameter, const Gradient* gradient, Moment* exp_avg, Moment* exp_avg_sq, int64_t count,
               const AdamWFactors<float>& factors, InstructionSet set);

// Where the 16 random bits come from that decide how an element is rounded: element i of a parameter takes half (i mod 512) / 64 (low
// halves first) of Philox block 64·⌊i / 512⌋ + i mod 64, keyed by `key`, in stream `step`.
struct RoundingNoise {
  std::array<uint32_t, 2> key;
  uint64_t step;
  int64_t first_index;  // of the range's first element within the parameter
};

// The same with parameters rounded up or down at random, so that the mean is the fp32 value: the noise is added below the bits that bf16
// keeps, which are then cut off. Any cut of a parameter into ranges gives the same bits.
template <class Gradient, class Moment>
void adamw_stochastic_cpu(BFloat16Bits* parameter, const Gradient* gradient, Moment* exp_avg, Moment* exp_avg_sq, int64_t count,
                          const AdamWFactors<float>& factors, const RoundingNoise& noise, InstructionSet set);

}  // namespace trine
