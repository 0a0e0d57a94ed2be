// How attention lays out blocks of tokens for its products (ops/attention_tiles.h), and the exponential of its softmax.
#pragma once

#include "ops/attention_cpu.h"
#include "ops/attention_tiles.h"

namespace trine {

// Tokens that a product takes at once. 64 keys of 128 bf16 values are 16 KiB; a smaller block would load and store its sums more often,
// a larger one would waste more of the products that the causal diagonal crosses.
constexpr int64_t kBlock = 64;
// Blocks side by side in a product of scores: sums over them leave registers a quarter as often as with one.
constexpr int64_t kRun = 4;

inline int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

// Sizes in blocks and units. Packed heads are as wide as whole registers, with zeros behind head_dim.
struct PackedSizes {
  int64_t blocks, width, depth;  // blocks of a sequence; values of a head; the same in units
  int64_t block_units;           // of a block in any packed layout
  int64_t pairs;                 // units in the depth of a block's tokens
  PackedSizes(const AttentionShape& shape, int per_unit)
      : blocks((shape.length + kBlock - 1) / kBlock),
        width(round_up(shape.head_dim, kLanes * per_unit)),
        depth(width / per_unit),
        block_units(kBlock * depth),
        pairs(kBlock / per_unit) {}
};

// Hands out parts of one allocation, or only counts them when it starts from nothing.
class Carver {
 public:
  explicit Carver(void* memory) : next_(static_cast<std::byte*>(memory)) {}
  template <class Value>
  Value* take(int64_t count) {
    auto* part = reinterpret_cast<Value*>(next_);
    const int64_t bytes = round_up(count * static_cast<int64_t>(sizeof(Value)), 64);
    if (next_) next_ += bytes;
    taken_ += bytes;
    return part;
  }
  int64_t taken() const { return taken_; }

 private:
  std::byte* next_;
  int64_t taken_ = 0;
};

// --- Layouts of a block of 64 tokens × width values

// rows[64][depth]: the tokens as they are, in the operand's type; zeros behind the last token and behind head_dim.
template <class Machine, class Value>
TRINE_INLINE void pack_rows(const Value* tokens, int64_t token_stride, int64_t num_tokens, int64_t head_dim, const PackedSizes& sizes,
                            Unit* rows) {
  using Operand = typename Machine::Operand;
  for (int64_t t = 0; t < kBlock; ++t) {
    auto* row = reinterpret_cast<Operand*>(rows + t * sizes.depth);
    const int64_t count = t < num_tokens ? head_dim : 0;
    const Value* token = tokens + t * token_stride;
    if constexpr (std::is_same_v<Operand, Value>) {
      if (count) std::memcpy(row, token, static_cast<size_t>(count) * sizeof(Value));
    } else {
      for (int64_t d = 0; d < count; ++d) store(row[d], load(token[d]));
    }
    std::memset(static_cast<void*>(row + count), 0, static_cast<size_t>(sizes.width - count) * sizeof(Operand));
  }
}

// to[columns][rows] = from[rows][columns] in units, both multiples of 16.
TRINE_INLINE void transpose(const Unit* from, int64_t from_row, int64_t rows, int64_t columns, Unit* to, int64_t to_row) {
  for (int64_t row = 0; row < rows; row += kLanes) {
    for (int64_t column = 0; column < columns; column += kLanes) {
      UnitLanes x[kLanes], y[kLanes];
#pragma unroll
      for (int64_t i = 0; i < kLanes; ++i) x[i] = load_units(from + (row + i) * from_row + column);
      // Four times, rows i and i + 8 are interleaved into rows 2i and 2i + 1; that moves every bit of the row index into the column's.
#pragma unroll
      for (int stage = 0; stage < 4; ++stage) {
#pragma unroll
        for (int64_t i = 0; i < kLanes / 2; ++i) {
          y[2 * i] = __builtin_shufflevector(x[i], x[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
          y[2 * i + 1] = __builtin_shufflevector(x[i], x[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
        }
#pragma unroll
        for (int64_t i = 0; i < kLanes; ++i) x[i] = y[i];
      }
#pragma unroll
      for (int64_t i = 0; i < kLanes; ++i) std::memcpy(to + (column + i) * to_row + row, &x[i], sizeof(UnitLanes));
    }
  }
}

// to[rows / values per unit][columns]: each unit holds a column's values of neighbouring rows. For fp32 that is a copy.
template <class Machine>
TRINE_INLINE void interleave_rows(const Unit* from, int64_t from_row, int64_t rows, int64_t columns, Unit* to, int64_t to_row) {
  if constexpr (Machine::kValuesPerUnit == 1) {
    for (int64_t r = 0; r < rows; ++r) std::memcpy(to + r * to_row, from + r * from_row, static_cast<size_t>(columns) * sizeof(Unit));
  } else {
    for (int64_t r = 0; r < rows; r += 2) {
      const auto* even = reinterpret_cast<const uint16_t*>(from + r * from_row);
      const auto* odd = reinterpret_cast<const uint16_t*>(from + (r + 1) * from_row);
      Unit* pairs = to + r / 2 * to_row;
      for (int64_t c = 0; c < columns; ++c) pairs[c] = static_cast<Unit>(even[c]) | static_cast<Unit>(odd[c]) << 16;
    }
  }
}

// --- Arithmetic on 16 values

// 2^x for x <= 0 to about 1 ulp; 0 below 2^-126, so that what a mask hides counts for exactly nothing. NaN stays NaN.
TRINE_INLINE Lanes exp2_lanes(const Lanes& x) {
  constexpr float kSmallest = -126.0f;
  // Adding and taking away 1.5·2^23 rounds to the nearest whole number.
  constexpr float kRounder = 12582912.0f;
  const Lanes bounded = x < kSmallest ? Lanes{} + kSmallest : x;
  const Lanes rounded = bounded + kRounder;
  const Lanes f = bounded - (rounded - kRounder);
  // The series of 2^f, |f| <= 1/2: (f ln 2)^k / k!.
  Lanes p = Lanes{} + 1.5403530e-4f;
  p = p * f + 1.3333558e-3f;
  p = p * f + 9.6181291e-3f;
  p = p * f + 5.5504109e-2f;
  p = p * f + 2.4022651e-1f;
  p = p * f + 6.9314718e-1f;
  p = p * f + 1.0f;
  // n + 127 from the low bits of the rounded number: a conversion would be undefined for NaN.
  const UnitLanes exponent = __builtin_bit_cast(UnitLanes, rounded) - __builtin_bit_cast(Unit, kRounder) + 127u;
  const Lanes value = p * __builtin_bit_cast(Lanes, exponent << 23);
  return x < kSmallest ? Lanes{} : value;
}

template <class Machine>
TRINE_INLINE void store_operands(Unit* row, int64_t index, const Lanes& x) {
  if constexpr (Machine::kValuesPerUnit == 1) {
    std::memcpy(row + index, &x, sizeof(x));
  } else {
    using Narrow __attribute__((vector_size(32))) = __bf16;
    const Narrow narrow = __builtin_convertvector(x, Narrow);
    std::memcpy(reinterpret_cast<uint16_t*>(row) + index, &narrow, sizeof(narrow));
  }
}

template <class Value>
TRINE_INLINE void store_scaled(Value* to, const float* from, int64_t count, float scale) {
  for (int64_t i = 0; i < count; ++i) store(to[i], from[i] * scale);
}

}  // namespace trine
