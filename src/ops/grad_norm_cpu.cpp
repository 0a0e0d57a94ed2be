#include "ops/grad_norm_cpu.h"

#include <algorithm>

namespace trine {
namespace {

constexpr int64_t kLanes = 64;    // partial sums side by side: four registers of AVX-512
constexpr int64_t kBlock = 4096;  // values whose squares are summed in fp32, 64 to a lane, before their sum goes to double

template <class Value>
__attribute__((always_inline)) inline double sum(const Value* values, int64_t count) {
  double total = 0;
  for (int64_t block = 0; block < count; block += kBlock) {
    const int64_t end = std::min(block + kBlock, count), whole_end = block + (end - block) / kLanes * kLanes;
    float lanes[kLanes] = {};
    for (int64_t i = block; i < whole_end; i += kLanes) {
      for (int64_t k = 0; k < kLanes; ++k) {
        const float value = load(values[i + k]);
        lanes[k] += value * value;
      }
    }
    for (int64_t i = whole_end; i < end; ++i) {
      const float value = load(values[i]);
      lanes[i - whole_end] += value * value;
    }
    for (int64_t k = 0; k < kLanes; ++k) total += static_cast<double>(lanes[k]);
  }
  return total;
}

template <class Value>
TRINE_AVX512 double sum_avx512(const Value* values, int64_t count) {
  return sum(values, count);
}
template <class Value>
TRINE_AVX2 double sum_avx2(const Value* values, int64_t count) {
  return sum(values, count);
}

}  // namespace

template <class Value>
double sum_of_squares_cpu(const Value* values, int64_t count, InstructionSet set) {
  switch (set) {
    case InstructionSet::kAvx512Bf16:
    case InstructionSet::kAvx512: return sum_avx512(values, count);
    case InstructionSet::kAvx2: return sum_avx2(values, count);
    case InstructionSet::kPortable: break;
  }
  return sum(values, count);
}

template double sum_of_squares_cpu<float>(const float*, int64_t, InstructionSet);
template double sum_of_squares_cpu<BFloat16Bits>(const BFloat16Bits*, int64_t, InstructionSet);

}  // namespace trine
