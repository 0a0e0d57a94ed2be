#include "ops/adamw_cpu.h"

#include <cmath>

namespace trine {
namespace {

template <class Parameter, class Gradient, class Moment>
__attribute__((always_inline)) inline void update(Parameter* __restrict parameter, const Gradient* __restrict gradient,
                                                  Moment* __restrict exp_avg, Moment* __restrict exp_avg_sq, int64_t count,
                                                  const AdamWFactors& f) {
  const AdamWFactors factors = f;  // a local copy, so that stores cannot alias it
  for (int64_t i = 0; i < count; ++i) {
    const float g = load(gradient[i]) * factors.clip;
    float p = load(parameter[i]) * factors.decay;
    float m = load(exp_avg[i]);
    m = m + factors.one_minus_beta1 * (g - m);
    const float v = load(exp_avg_sq[i]) * factors.beta2 + factors.one_minus_beta2 * g * g;
    p = p - factors.step_size * (m / (std::sqrt(v) * factors.inverse_sqrt_bias2 + factors.eps));
    store(parameter[i], p);
    store(exp_avg[i], m);
    store(exp_avg_sq[i], v);
  }
}

template <class P, class G, class M>
TRINE_AVX512 void update_avx512(P* p, const G* g, M* m, M* v, int64_t count, const AdamWFactors& f) {
  update(p, g, m, v, count, f);
}
template <class P, class G, class M>
TRINE_AVX2 void update_avx2(P* p, const G* g, M* m, M* v, int64_t count, const AdamWFactors& f) {
  update(p, g, m, v, count, f);
}

}  // namespace

template <class P, class G, class M>
void adamw_cpu(P* parameter, const G* gradient, M* exp_avg, M* exp_avg_sq, int64_t count, const AdamWFactors& factors,
               InstructionSet set) {
  switch (set) {
    case InstructionSet::kAvx512Bf16:
    case InstructionSet::kAvx512: return update_avx512(parameter, gradient, exp_avg, exp_avg_sq, count, factors);
    case InstructionSet::kAvx2: return update_avx2(parameter, gradient, exp_avg, exp_avg_sq, count, factors);
    case InstructionSet::kPortable: return update(parameter, gradient, exp_avg, exp_avg_sq, count, factors);
  }
}

#define TRINE_ADAMW(P, G, M) template void adamw_cpu<P, G, M>(P*, const G*, M*, M*, int64_t, const AdamWFactors&, InstructionSet);
TRINE_ADAMW(float, float, float)
TRINE_ADAMW(float, float, BFloat16Bits)
TRINE_ADAMW(float, BFloat16Bits, float)
TRINE_ADAMW(float, BFloat16Bits, BFloat16Bits)
TRINE_ADAMW(BFloat16Bits, float, float)
TRINE_ADAMW(BFloat16Bits, float, BFloat16Bits)
TRINE_ADAMW(BFloat16Bits, BFloat16Bits, float)
TRINE_ADAMW(BFloat16Bits, BFloat16Bits, BFloat16Bits)

}  // namespace trine
