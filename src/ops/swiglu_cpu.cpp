#include "ops/swiglu_cpu.h"

#include "ops/vector_math.h"

namespace trine {
namespace {

template <class Value>
struct Forward {
  TRINE_INLINE static void run(SwiGluInputs<Value> in, Value* y_rows) {
    for (int64_t row = 0; row < in.rows; ++row) {
      const Value *gate = in.gate + row * in.gate_stride, *up = in.up + row * in.up_stride;
      Value* __restrict y = y_rows + row * in.n;
      for (int64_t i = 0; i < in.n; ++i) {
        const float g = load(gate[i]);
        store(y[i], g * sigmoid(g) * load(up[i]));
      }
    }
  }
};

template <class Value>
struct Backward {
  TRINE_INLINE static void run(SwiGluInputs<Value> in, const Value* dy_rows, Value* dgate_rows, Value* dup_rows) {
    for (int64_t row = 0; row < in.rows; ++row) {
      const Value *gate = in.gate + row * in.gate_stride, *up = in.up + row * in.up_stride, *dy = dy_rows + row * in.n;
      Value *__restrict dgate = dgate_rows + row * in.n, *__restrict dup = dup_rows + row * in.n;
      for (int64_t i = 0; i < in.n; ++i) {
        const float g = load(gate[i]), d = load(dy[i]), s = sigmoid(g);
        store(dgate[i], d * load(up[i]) * (s * (1.0f + g * (1.0f - s))));
        store(dup[i], d * (g * s));
      }
    }
  }
};

}  // namespace

template <class Value>
void swiglu_rows_cpu(const SwiGluInputs<Value>& in, Value* y, InstructionSet set) {
  run_clone<Forward<Value>>(set, in, y);
}
template <class Value>
void swiglu_backward_rows_cpu(const SwiGluInputs<Value>& in, const Value* dy, Value* dgate, Value* dup, InstructionSet set) {
  run_clone<Backward<Value>>(set, in, dy, dgate, dup);
}

#define TRINE_SWIGLU(Value)                                                                   \
  template void swiglu_rows_cpu<Value>(const SwiGluInputs<Value>&, Value*, InstructionSet);   \
  template void swiglu_backward_rows_cpu<Value>(const SwiGluInputs<Value>&, const Value*, Value*, Value*, InstructionSet);
TRINE_SWIGLU(float)
TRINE_SWIGLU(BFloat16Bits)

}  // namespace trine
