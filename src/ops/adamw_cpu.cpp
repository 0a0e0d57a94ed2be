#include "ops/adamw_cpu.h"

#include <algorithm>
#include <cmath>

#include "base/random_cpu.h"
#include "ops/clones.h"

namespace trine {
namespace {

using Factors = AdamWFactors<float>;

// Updates the moments and gives the parameter's new value, to be rounded.
template <class Parameter, class Gradient, class Moment>
TRINE_INLINE float updated(const Parameter& parameter, const Gradient& gradient, Moment& exp_avg, Moment& exp_avg_sq, const Factors& f) {
  const float g = load(gradient) * f.clip;
  const float p = load(parameter) * f.decay;
  float m = load(exp_avg);
  m = m + f.one_minus_beta1 * (g - m);
  const float v = load(exp_avg_sq) * f.beta2 + f.one_minus_beta2 * g * g;
  store(exp_avg, m);
  store(exp_avg_sq, v);
  return p - f.step_size * (m / (std::sqrt(v) * f.inverse_sqrt_bias2 + f.eps));
}

struct ToNearest {
  template <class Parameter, class Gradient, class Moment>
  TRINE_INLINE static void run(Parameter* __restrict parameter, const Gradient* __restrict gradient, Moment* __restrict exp_avg,
                               Moment* __restrict exp_avg_sq, int64_t count, Factors factors) {
    for (int64_t i = 0; i < count; ++i) store(parameter[i], updated(parameter[i], gradient[i], exp_avg[i], exp_avg_sq[i], factors));
  }
};

constexpr int64_t kGroup = 8 * kWordBlocks;  // elements that get their noise from one draw

// An infinity has no bits below those that are kept, and stays one; a NaN stays a NaN.
TRINE_INLINE void store_with_noise(BFloat16Bits& to, float value, uint32_t noise) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + noise) >> 16, quiet_nan = (bits >> 16) | 0x40u;
  to.bits = static_cast<uint16_t>((bits & 0x7FFFFFFFu) > 0x7F800000u ? quiet_nan : rounded);
}

struct WithNoise {
  // At most kGroup elements.
  template <class Gradient, class Moment>
  TRINE_INLINE static void run(BFloat16Bits* __restrict parameter, const Gradient* __restrict gradient, Moment* __restrict exp_avg,
                               Moment* __restrict exp_avg_sq, int64_t count, Factors factors, const uint16_t* __restrict noise) {
    for (int64_t i = 0; i < count; ++i) {
      store_with_noise(parameter[i], updated(parameter[i], gradient[i], exp_avg[i], exp_avg_sq[i], factors), noise[i]);
    }
  }
};

struct NoiseOfGroup {
  TRINE_INLINE static void run(const uint32_t (*words)[kWordBlocks], uint16_t* __restrict noise) {
    for (int64_t k = 0; k < 4; ++k) {
      for (int64_t i = 0; i < kWordBlocks; ++i) {
        noise[2 * k * kWordBlocks + i] = static_cast<uint16_t>(words[k][i]);
        noise[(2 * k + 1) * kWordBlocks + i] = static_cast<uint16_t>(words[k][i] >> 16);
      }
    }
  }
};

}  // namespace

template <class P, class G, class M>
void adamw_cpu(P* parameter, const G* gradient, M* exp_avg, M* exp_avg_sq, int64_t count, const Factors& factors, InstructionSet set) {
  run_clone<ToNearest>(set, parameter, gradient, exp_avg, exp_avg_sq, count, factors);
}

template <class G, class M>
void adamw_stochastic_cpu(BFloat16Bits* parameter, const G* gradient, M* exp_avg, M* exp_avg_sq, int64_t count, const Factors& factors,
                          const RoundingNoise& noise, InstructionSet set) {
  uint32_t words[4][kWordBlocks];
  uint16_t noise_of_group[kGroup];
  for (int64_t begin = 0; begin < count;) {
    const int64_t index = noise.first_index + begin, group = index / kGroup, within = index % kGroup;
    const int64_t size = std::min(kGroup - within, count - begin);
    draw_words(noise.key, noise.step, static_cast<uint64_t>(group * kWordBlocks), words, set);
    run_clone<NoiseOfGroup>(set, static_cast<const uint32_t(*)[kWordBlocks]>(words), static_cast<uint16_t*>(noise_of_group));
    run_clone<WithNoise>(set, parameter + begin, gradient + begin, exp_avg + begin, exp_avg_sq + begin, size, factors,
                         static_cast<const uint16_t*>(noise_of_group + within));
    begin += size;
  }
}

#define TRINE_ADAMW(P, G, M) template void adamw_cpu<P, G, M>(P*, const G*, M*, M*, int64_t, const Factors&, InstructionSet);
#define TRINE_ADAMW_OF(G, M)           \
  TRINE_ADAMW(float, G, M)             \
  TRINE_ADAMW(BFloat16Bits, G, M)      \
  template void adamw_stochastic_cpu<G, M>(BFloat16Bits*, const G*, M*, M*, int64_t, const Factors&, const RoundingNoise&, InstructionSet);
TRINE_ADAMW_OF(float, float)
TRINE_ADAMW_OF(float, BFloat16Bits)
TRINE_ADAMW_OF(BFloat16Bits, float)
TRINE_ADAMW_OF(BFloat16Bits, BFloat16Bits)

}  // namespace trine
