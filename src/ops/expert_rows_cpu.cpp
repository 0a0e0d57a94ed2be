#include "ops/expert_rows_cpu.h"

#include <algorithm>
#include <cstring>

#include "ops/vector_math.h"

namespace trine {
namespace {

constexpr int64_t kLanes = 16;  // partial sums of a dot product: one AVX-512 register of floats; narrower sets use several

template <class Value>
struct ActivationBackward {
  TRINE_INLINE static void run(ExpertActivation<Value> in, Value* weighted_act_rows, Value* dgate_up_rows, float* dweights) {
    for (int64_t row = 0; row < in.rows; ++row) {
      Value *act = weighted_act_rows + row * in.inner, *dgate = dgate_up_rows + row * 2 * in.inner, *dup = dgate + in.inner;
      if (in.choices[row] < 0) {
        std::memset(act, 0, static_cast<size_t>(in.inner) * sizeof(Value));
        std::memset(dgate, 0, static_cast<size_t>(2 * in.inner) * sizeof(Value));
        continue;
      }
      const Value *gate = in.gate_up + row * 2 * in.inner, *up = gate + in.inner, *dact = in.dact + row * in.inner;
      const float weight = in.weights[in.choices[row]];
      const auto one = [&](int64_t i) __attribute__((always_inline)) {
        const float g = load(gate[i]), u = load(up[i]), d = load(dact[i]), s = sigmoid(g), silu = g * s, weighted = d * weight;
        store(act[i], silu * u * weight);
        store(dgate[i], weighted * u * (s * (1.0f + g * (1.0f - s))));
        store(dup[i], weighted * silu);
        return d * (silu * u);
      };
      float lanes[kLanes] = {};
      const int64_t whole = in.inner / kLanes * kLanes;
      for (int64_t i = 0; i < whole; i += kLanes) {
#pragma clang loop vectorize(assume_safety)
        for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += one(i + lane);
      }
      float sum = 0;
      for (float lane : lanes) sum += lane;
      for (int64_t i = whole; i < in.inner; ++i) sum += one(i);
      dweights[in.choices[row]] = sum;
    }
  }
};

template <class Value>
struct Combine {
  TRINE_INLINE static void run(const Value* rows, const int64_t* row_of_choice, const float* weights, int64_t top_k, int64_t begin,
                               int64_t end, int64_t hidden, Value* y_th) {
    constexpr int64_t kBlock = 64;  // sums that stay in registers or the nearest cache while the choices are walked
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t first = 0; first < hidden; first += kBlock) {
        const int64_t count = std::min(kBlock, hidden - first);
        float sums[kBlock] = {};
        for (int64_t j = 0; j < top_k; ++j) {
          const Value* __restrict row = rows + row_of_choice[t * top_k + j] * hidden + first;
          const float weight = weights ? weights[t * top_k + j] : 1.0f;
          for (int64_t i = 0; i < count; ++i) sums[i] += weight * load(row[i]);
        }
        Value* __restrict y = y_th + t * hidden + first;
        for (int64_t i = 0; i < count; ++i) store(y[i], sums[i]);
      }
    }
  }
};

}  // namespace

template <class Value>
void gather_rows_cpu(const Value* from_th, const int64_t* choices, int64_t top_k, int64_t rows, int64_t hidden, Value* to) {
  const size_t bytes = static_cast<size_t>(hidden) * sizeof(Value);
  for (int64_t row = 0; row < rows; ++row) {
    if (choices[row] < 0) {
      std::memset(to + row * hidden, 0, bytes);
    } else {
      std::memcpy(to + row * hidden, from_th + choices[row] / top_k * hidden, bytes);
    }
  }
}

template <class Value>
void expert_activation_backward_cpu(const ExpertActivation<Value>& in, Value* weighted_act, Value* dgate_up, float* dweights,
                                    InstructionSet set) {
  run_clone<ActivationBackward<Value>>(set, in, weighted_act, dgate_up, dweights);
}

template <class Value>
void combine_rows_cpu(const Value* rows, const int64_t* row_of_choice, const float* weights, int64_t top_k, int64_t begin, int64_t end,
                      int64_t hidden, Value* y_th, InstructionSet set) {
  run_clone<Combine<Value>>(set, rows, row_of_choice, weights, top_k, begin, end, hidden, y_th);
}

#define TRINE_EXPERT_ROWS(Value)                                                                                                    \
  template void gather_rows_cpu<Value>(const Value*, const int64_t*, int64_t, int64_t, int64_t, Value*);                            \
  template void expert_activation_backward_cpu<Value>(const ExpertActivation<Value>&, Value*, Value*, float*, InstructionSet);      \
  template void combine_rows_cpu<Value>(const Value*, const int64_t*, const float*, int64_t, int64_t, int64_t, int64_t, Value*,     \
                                        InstructionSet);
TRINE_EXPERT_ROWS(float)
TRINE_EXPERT_ROWS(BFloat16Bits)

}  // namespace trine
