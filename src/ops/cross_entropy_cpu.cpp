#include "ops/cross_entropy_cpu.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/vector_math.h"

namespace trine {
namespace {

constexpr int64_t kLanes = 16;     // one AVX-512 register of floats; narrower sets use several
constexpr int64_t kBlock = 4096;   // values summed in fp32 before their sum goes to double

template <class Value>
__attribute__((always_inline)) inline double row(Value* __restrict logits, int64_t count, int64_t label, float scale, bool write_gradient) {
  float lanes[kLanes];
  std::fill(lanes, lanes + kLanes, -std::numeric_limits<float>::infinity());
  const int64_t whole = count / kLanes * kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) {
    for (int64_t k = 0; k < kLanes; ++k) {
      const float value = load(logits[i + k]);
      lanes[k] = value > lanes[k] ? value : lanes[k];
    }
  }
  float largest = *std::max_element(lanes, lanes + kLanes);
  for (int64_t i = whole; i < count; ++i) largest = std::max(largest, load(logits[i]));

  double sum = 0;
  for (int64_t block = 0; block < count; block += kBlock) {
    const int64_t end = std::min(block + kBlock, count), end_whole = block + (end - block) / kLanes * kLanes;
    float partial[kLanes] = {};
    for (int64_t i = block; i < end_whole; i += kLanes) {
      for (int64_t k = 0; k < kLanes; ++k) partial[k] += exp_of_negative(load(logits[i + k]) - largest);
    }
    for (int64_t k = 0; k < kLanes; ++k) sum += static_cast<double>(partial[k]);
    for (int64_t i = end_whole; i < end; ++i) sum += static_cast<double>(exp_of_negative(load(logits[i]) - largest));
  }
  const double loss = std::log(sum) + static_cast<double>(largest) - static_cast<double>(load(logits[label]));
  if (!write_gradient) return loss;

  const float label_logit = load(logits[label]);
  const float factor = static_cast<float>(static_cast<double>(scale) / sum);
  for (int64_t i = 0; i < count; ++i) store(logits[i], exp_of_negative(load(logits[i]) - largest) * factor);
  store(logits[label], exp_of_negative(label_logit - largest) * factor - scale);
  // A NaN or infinite logit must reach the gradient, where the check before the update finds it.
  if (!std::isfinite(loss)) store(logits[label], std::numeric_limits<float>::quiet_NaN());
  return loss;
}

template <class Value>
TRINE_AVX512 double row_avx512(Value* logits, int64_t count, int64_t label, float scale, bool write_gradient) {
  return row(logits, count, label, scale, write_gradient);
}
template <class Value>
TRINE_AVX2 double row_avx2(Value* logits, int64_t count, int64_t label, float scale, bool write_gradient) {
  return row(logits, count, label, scale, write_gradient);
}

}  // namespace

template <class Value>
double cross_entropy_row_cpu(Value* logits, int64_t count, int64_t label, float scale, bool write_gradient, InstructionSet set) {
  switch (set) {
    case InstructionSet::kAvx512Bf16:
    case InstructionSet::kAvx512: return row_avx512(logits, count, label, scale, write_gradient);
    case InstructionSet::kAvx2: return row_avx2(logits, count, label, scale, write_gradient);
    case InstructionSet::kPortable: break;
  }
  return row(logits, count, label, scale, write_gradient);
}

template double cross_entropy_row_cpu<float>(float*, int64_t, int64_t, float, bool, InstructionSet);
template double cross_entropy_row_cpu<BFloat16Bits>(BFloat16Bits*, int64_t, int64_t, float, bool, InstructionSet);

}  // namespace trine
