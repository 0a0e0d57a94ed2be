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
TRINE_INLINE float largest_of(const Value* logits, int64_t count) {
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
  return largest;
}

// Σ e^(logit − largest)
template <class Value>
TRINE_INLINE double sum_of_exponentials(const Value* logits, int64_t count, float largest) {
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
  return sum;
}

// The row becomes e^(logit − shift) · factor, and `scale` less at the label.
template <class Value>
TRINE_INLINE void to_gradient(Value* __restrict logits, int64_t count, int64_t label, float shift, float factor, float scale,
                              bool is_finite) {
  const float label_logit = load(logits[label]);
  for (int64_t i = 0; i < count; ++i) store(logits[i], exp_of_negative(load(logits[i]) - shift) * factor);
  store(logits[label], exp_of_negative(label_logit - shift) * factor - scale);
  // A NaN or infinite logit must reach the gradient, where the check before the update finds it.
  if (!is_finite) store(logits[label], std::numeric_limits<float>::quiet_NaN());
}

template <class Value>
struct LossRow {
  TRINE_INLINE static void run(Value* logits, int64_t count, int64_t label, float scale, bool write_gradient, double* loss) {
    const float largest = largest_of(logits, count);
    const double sum = sum_of_exponentials(logits, count, largest);
    *loss = std::log(sum) + static_cast<double>(largest) - static_cast<double>(load(logits[label]));
    const float factor = static_cast<float>(static_cast<double>(scale) / sum);
    if (write_gradient) to_gradient(logits, count, label, largest, factor, scale, std::isfinite(*loss));
  }
};

template <class Value>
struct LogSumExpRow {
  TRINE_INLINE static void run(const Value* logits, int64_t count, double* lse) {
    const float largest = largest_of(logits, count);
    *lse = std::log(sum_of_exponentials(logits, count, largest)) + static_cast<double>(largest);
  }
};

template <class Value>
struct GradientRow {
  TRINE_INLINE static void run(Value* logits, int64_t count, int64_t label, float lse, float scale) {
    to_gradient(logits, count, label, lse, scale, scale, std::isfinite(lse));
  }
};

}  // namespace

template <class Value>
double cross_entropy_row_cpu(Value* logits, int64_t count, int64_t label, float scale, bool write_gradient, InstructionSet set) {
  double loss = 0;
  run_clone<LossRow<Value>>(set, logits, count, label, scale, write_gradient, &loss);
  return loss;
}

template <class Value>
double log_sum_exp_row_cpu(const Value* logits, int64_t count, InstructionSet set) {
  double lse = 0;
  run_clone<LogSumExpRow<Value>>(set, logits, count, &lse);
  return lse;
}

template <class Value>
void cross_entropy_gradient_row_cpu(Value* logits, int64_t count, int64_t label, float lse, float scale, InstructionSet set) {
  run_clone<GradientRow<Value>>(set, logits, count, label, lse, scale);
}

#define TRINE_CROSS_ENTROPY(Value)                                                                    \
  template double cross_entropy_row_cpu<Value>(Value*, int64_t, int64_t, float, bool, InstructionSet); \
  template double log_sum_exp_row_cpu<Value>(const Value*, int64_t, InstructionSet);                  \
  template void cross_entropy_gradient_row_cpu<Value>(Value*, int64_t, int64_t, float, float, InstructionSet);
TRINE_CROSS_ENTROPY(float)
TRINE_CROSS_ENTROPY(BFloat16Bits)

}  // namespace trine
