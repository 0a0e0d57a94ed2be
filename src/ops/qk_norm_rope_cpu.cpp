#include "ops/qk_norm_rope_cpu.h"

#include <algorithm>

#include "ops/rms_norm_rows.h"

namespace trine {
namespace {

template <class Value>
struct Forward {
  TRINE_INLINE static void run(const Value* x, HeadStrides xs, const float* weight, float eps, Value* y, HeadStrides ys, float* rstds,
                               RopeRows rows, int64_t num_heads, int64_t begin, int64_t end) {
    const int64_t half = rows.half;
    for (int64_t t = begin; t < end; ++t) {
      const int64_t b = t / rows.length, s = t % rows.length, row = rope_row(rows, t) * half;
      const float *cos = rows.cos + row, *sin = rows.sin + row;
      for (int64_t head = 0; head < num_heads; ++head) {
        const Value* from = x + b * xs.batch + s * xs.position + head * xs.head;
        Value* __restrict to = y + b * ys.batch + s * ys.position + head * ys.head;
        const float rstd = rstd_of_row(from, 2 * half, eps);
        rstds[t * num_heads + head] = rstd;
        for (int64_t i = 0; i < half; ++i) {
          const float first = load(from[i]) * rstd * weight[i], second = load(from[i + half]) * rstd * weight[i + half];
          store(to[i], first * cos[i] - second * sin[i]);
          store(to[i + half], second * cos[i] + first * sin[i]);
        }
      }
    }
  }
};

template <class Value>
struct Backward {
  TRINE_INLINE static void run(const Value* dy, HeadStrides dys, const Value* x, HeadStrides xs, const float* weight, const float* rstds,
                               Value* dx, HeadStrides dxs, float* __restrict dweight, RopeRows rows, int64_t num_heads, int64_t begin,
                               int64_t end) {
    const int64_t half = rows.half, n = 2 * half;
    std::fill(dweight, dweight + n, 0.0f);
    for (int64_t t = begin; t < end; ++t) {
      const int64_t b = t / rows.length, s = t % rows.length, row = rope_row(rows, t) * half;
      const float *cos = rows.cos + row, *sin = rows.sin + row;
      for (int64_t head = 0; head < num_heads; ++head) {
        const Value* upper = dy + b * dys.batch + s * dys.position + head * dys.head;
        const Value* from = x + b * xs.batch + s * xs.position + head * xs.head;
        Value* __restrict to = dx + b * dxs.batch + s * dxs.position + head * dxs.head;
        const float rstd = rstds[t * num_heads + head];
        // The gradient before the rotation, and x̂.
        const auto first_of = [&](int64_t i) __attribute__((always_inline)) {
          return load(upper[i]) * cos[i] + load(upper[i + half]) * sin[i];
        };
        const auto second_of = [&](int64_t i) __attribute__((always_inline)) {
          return load(upper[i + half]) * cos[i] - load(upper[i]) * sin[i];
        };
        const float dot = sum_in_lanes(half, [&](int64_t i) __attribute__((always_inline)) {
          return first_of(i) * weight[i] * (load(from[i]) * rstd) + second_of(i) * weight[i + half] * (load(from[i + half]) * rstd);
        });
        const float mean = dot / static_cast<float>(n);
        for (int64_t i = 0; i < half; ++i) {
          const float first = first_of(i), second = second_of(i);
          const float first_hat = load(from[i]) * rstd, second_hat = load(from[i + half]) * rstd;
          dweight[i] += first * first_hat;
          dweight[i + half] += second * second_hat;
          store(to[i], (first * weight[i] - first_hat * mean) * rstd);
          store(to[i + half], (second * weight[i + half] - second_hat * mean) * rstd);
        }
      }
    }
  }
};

}  // namespace

template <class Value>
void qk_norm_rope_cpu(const Value* x, HeadStrides x_strides, const float* weight, float eps, Value* y, HeadStrides y_strides, float* rstd,
                      const RopeRows& rows, int64_t num_heads, int64_t begin, int64_t end, InstructionSet set) {
  run_clone<Forward<Value>>(set, x, x_strides, weight, eps, y, y_strides, rstd, rows, num_heads, begin, end);
}

template <class Value>
void qk_norm_rope_backward_cpu(const Value* dy, HeadStrides dy_strides, const Value* x, HeadStrides x_strides, const float* weight,
                               const float* rstd, Value* dx, HeadStrides dx_strides, float* dweight, const RopeRows& rows,
                               int64_t num_heads, int64_t begin, int64_t end, InstructionSet set) {
  run_clone<Backward<Value>>(set, dy, dy_strides, x, x_strides, weight, rstd, dx, dx_strides, dweight, rows, num_heads, begin, end);
}

#define TRINE_QK_NORM_ROPE(Value)                                                                                                      \
  template void qk_norm_rope_cpu<Value>(const Value*, HeadStrides, const float*, float, Value*, HeadStrides, float*, const RopeRows&,  \
                                        int64_t, int64_t, int64_t, InstructionSet);                                                    \
  template void qk_norm_rope_backward_cpu<Value>(const Value*, HeadStrides, const Value*, HeadStrides, const float*, const float*,     \
                                                 Value*, HeadStrides, float*, const RopeRows&, int64_t, int64_t, int64_t, InstructionSet);
TRINE_QK_NORM_ROPE(float)
TRINE_QK_NORM_ROPE(BFloat16Bits)

}  // namespace trine
