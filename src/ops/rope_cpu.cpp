#include "ops/rope_cpu.h"

#include "ops/clones.h"

namespace trine {
namespace {

template <class Value, bool kBackwards>
struct Rotate {
  TRINE_INLINE static void run(const Value* x, HeadStrides xs, Value* y, HeadStrides ys, RopeRows rows, int64_t num_heads, int64_t begin,
                               int64_t end) {
    const int64_t half = rows.half;
    for (int64_t t = begin; t < end; ++t) {
      const int64_t b = t / rows.length, s = t % rows.length, row = rope_row(rows, t) * half;
      const float *cos = rows.cos + row, *sin = rows.sin + row;
      for (int64_t head = 0; head < num_heads; ++head) {
        const Value* from = x + b * xs.batch + s * xs.position + head * xs.head;
        Value* __restrict to = y + b * ys.batch + s * ys.position + head * ys.head;
        for (int64_t i = 0; i < half; ++i) {
          const float first = load(from[i]), second = load(from[i + half]);
          const float c = cos[i], sine = sin[i];
          store(to[i], kBackwards ? first * c + second * sine : first * c - second * sine);
          store(to[i + half], kBackwards ? second * c - first * sine : second * c + first * sine);
        }
      }
    }
  }
};

}  // namespace

template <class Value>
void rope_cpu(const Value* x, HeadStrides x_strides, Value* y, HeadStrides y_strides, const RopeRows& rows, int64_t num_heads,
              int64_t begin, int64_t end, bool backwards, InstructionSet set) {
  if (backwards) {
    run_clone<Rotate<Value, true>>(set, x, x_strides, y, y_strides, rows, num_heads, begin, end);
  } else {
    run_clone<Rotate<Value, false>>(set, x, x_strides, y, y_strides, rows, num_heads, begin, end);
  }
}

template void rope_cpu<float>(const float*, HeadStrides, float*, HeadStrides, const RopeRows&, int64_t, int64_t, int64_t, bool,
                              InstructionSet);
template void rope_cpu<BFloat16Bits>(const BFloat16Bits*, HeadStrides, BFloat16Bits*, HeadStrides, const RopeRows&, int64_t, int64_t,
                                     int64_t, bool, InstructionSet);

}  // namespace trine
