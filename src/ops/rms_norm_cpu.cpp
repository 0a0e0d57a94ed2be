#include "ops/rms_norm_cpu.h"

#include <algorithm>

#include "ops/rms_norm_rows.h"

namespace trine {
namespace {

template <class Value>
TRINE_INLINE float normalise(const Value* x, const float* weight, Value* __restrict y, int64_t n, float eps) {
  const float rstd = rstd_of_row(x, n, eps);
  for (int64_t i = 0; i < n; ++i) store(y[i], load(x[i]) * rstd * weight[i]);
  return rstd;
}

template <class Value>
struct Forward {
  TRINE_INLINE static void run(const Value* x, int64_t x_stride, const float* weight, Value* y, float* rstd, int64_t rows, int64_t n,
                               float eps) {
    for (int64_t row = 0; row < rows; ++row) rstd[row] = normalise(x + row * x_stride, weight, y + row * n, n, eps);
  }
};

template <class Value>
struct AddForward {
  TRINE_INLINE static void run(const Value* x, int64_t x_stride, const Value* residual, int64_t residual_stride, const float* weight,
                               Value* sum, Value* y, float* rstd, int64_t rows, int64_t n, float eps) {
    for (int64_t row = 0; row < rows; ++row) {
      const Value *a = x + row * x_stride, *b = residual + row * residual_stride;
      Value* __restrict total = sum + row * n;
      for (int64_t i = 0; i < n; ++i) store(total[i], load(a[i]) + load(b[i]));
      rstd[row] = normalise(total, weight, y + row * n, n, eps);
    }
  }
};

template <class Value, bool kHasSum>
struct Backward {
  TRINE_INLINE static void run(const Value* dy_rows, int64_t dy_stride, const Value* x_rows, int64_t x_stride, const float* weight,
                               const float* rstd_rows, const Value* dsum_rows, Value* dx_rows, float* __restrict dweight, int64_t rows,
                               int64_t n) {
    std::fill(dweight, dweight + n, 0.0f);
    for (int64_t row = 0; row < rows; ++row) {
      const Value *dy = dy_rows + row * dy_stride, *x = x_rows + row * x_stride;
      const Value* dsum = kHasSum ? dsum_rows + row * n : nullptr;
      Value* __restrict dx = dx_rows + row * n;
      const float rstd = rstd_rows[row];
      const float dot =
          sum_in_lanes(n, [&](int64_t i) __attribute__((always_inline)) { return load(dy[i]) * weight[i] * (load(x[i]) * rstd); });
      const float mean = dot / static_cast<float>(n);
      for (int64_t i = 0; i < n; ++i) {
        const float g = load(dy[i]), x_hat = load(x[i]) * rstd;
        const float through_norm = (g * weight[i] - x_hat * mean) * rstd;
        dweight[i] += g * x_hat;
        store(dx[i], kHasSum ? load(dsum[i]) + through_norm : through_norm);
      }
    }
  }
};

}  // namespace

template <class Value>
void rms_norm_rows_cpu(const Value* x, int64_t x_stride, const float* weight, Value* y, float* rstd, int64_t rows, int64_t n, float eps,
                       InstructionSet set) {
  run_clone<Forward<Value>>(set, x, x_stride, weight, y, rstd, rows, n, eps);
}

template <class Value>
void add_rms_norm_rows_cpu(const Value* x, int64_t x_stride, const Value* residual, int64_t residual_stride, const float* weight,
                           Value* sum, Value* y, float* rstd, int64_t rows, int64_t n, float eps, InstructionSet set) {
  run_clone<AddForward<Value>>(set, x, x_stride, residual, residual_stride, weight, sum, y, rstd, rows, n, eps);
}

template <class Value>
void rms_norm_backward_rows_cpu(const Value* dy, int64_t dy_stride, const Value* x, int64_t x_stride, const float* weight,
                                const float* rstd, const Value* dsum, Value* dx, float* dweight, int64_t rows, int64_t n,
                                InstructionSet set) {
  if (dsum) {
    run_clone<Backward<Value, true>>(set, dy, dy_stride, x, x_stride, weight, rstd, dsum, dx, dweight, rows, n);
  } else {
    run_clone<Backward<Value, false>>(set, dy, dy_stride, x, x_stride, weight, rstd, dsum, dx, dweight, rows, n);
  }
}

void sum_blocks_cpu(const float* partial, int64_t blocks, int64_t n, float* out) {
  constexpr int64_t kColumns = 64;  // summed side by side, so that their doubles stay in registers and cache
  for (int64_t begin = 0; begin < n; begin += kColumns) {
    const int64_t columns = std::min(kColumns, n - begin);
    double sums[kColumns] = {};
    for (int64_t block = 0; block < blocks; ++block) {
      for (int64_t i = 0; i < columns; ++i) sums[i] += static_cast<double>(partial[block * n + begin + i]);
    }
    for (int64_t i = 0; i < columns; ++i) out[begin + i] = static_cast<float>(sums[i]);
  }
}

#define TRINE_RMS_NORM(Value)                                                                                                           \
  template void rms_norm_rows_cpu<Value>(const Value*, int64_t, const float*, Value*, float*, int64_t, int64_t, float, InstructionSet); \
  template void add_rms_norm_rows_cpu<Value>(const Value*, int64_t, const Value*, int64_t, const float*, Value*, Value*, float*,        \
                                             int64_t, int64_t, float, InstructionSet);                                                  \
  template void rms_norm_backward_rows_cpu<Value>(const Value*, int64_t, const Value*, int64_t, const float*, const float*,             \
                                                  const Value*, Value*, float*, int64_t, int64_t, InstructionSet);
TRINE_RMS_NORM(float)
TRINE_RMS_NORM(BFloat16Bits)

}  // namespace trine
