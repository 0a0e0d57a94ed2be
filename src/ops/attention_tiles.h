// The inner loops of attention on a CPU: products of small packed matrices, one version per instruction set.
//
// An operand is kept as 32-bit *units* along the dimension that a product sums over: one fp32 value, or two neighbouring bf16 values,
// which AVX512-BF16 multiplies and adds at once. One loop then serves both: broadcast a unit of A, multiply by 16 units of B, add to 16
// fp32 results.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "ops/bfloat16_bits.h"
#include "ops/clones.h"

namespace trine {

using Unit = uint32_t;

// 16 values: one AVX-512 register, which the compiler splits into narrower ones for other sets.
constexpr int64_t kLanes = 16;
using Lanes __attribute__((vector_size(64))) = float;
using UnitLanes __attribute__((vector_size(64))) = Unit;
using IntLanes __attribute__((vector_size(64))) = int32_t;

// Columns are walked in panels of this many: a panel of B with 64 units of depth is 16 KiB, half of a first-level cache.
constexpr int64_t kPanel = 64;

struct Left {  // A: rows apart by `row` units, contiguous along the depth
  const Unit* data;
  int64_t row;
};
struct Right {  // B: depth apart by `row` units, panels of kPanel columns apart by `panel`
  const Unit* data;
  int64_t row, panel;
};
struct Result {  // C: the same, in floats
  float* data;
  int64_t row, panel;
};

TRINE_INLINE Lanes load_lanes(const float* from) {
  Lanes x;
  std::memcpy(&x, from, sizeof(x));
  return x;
}
TRINE_INLINE void store_lanes(float* to, const Lanes& x) { std::memcpy(to, &x, sizeof(x)); }
TRINE_INLINE UnitLanes load_units(const Unit* from) {
  UnitLanes x;
  std::memcpy(&x, from, sizeof(x));
  return x;
}

// C[Rows, 16·Vectors] = (add: C +) A[Rows, depth] B[depth, 16·Vectors], for fp32 operands.
template <int Rows, int Vectors>
TRINE_INLINE void tile_fp32(Left a, Right b, Result c, int64_t depth, bool add) {
  Lanes sums[Rows][Vectors];
#pragma unroll
  for (int r = 0; r < Rows; ++r) {
#pragma unroll
    for (int v = 0; v < Vectors; ++v) sums[r][v] = add ? load_lanes(c.data + r * c.row + v * kLanes) : Lanes{};
  }
  for (int64_t k = 0; k < depth; ++k) {
    Lanes right[Vectors];
#pragma unroll
    for (int v = 0; v < Vectors; ++v) std::memcpy(&right[v], b.data + k * b.row + v * kLanes, sizeof(Lanes));
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      float left;
      std::memcpy(&left, a.data + r * a.row + k, sizeof(left));
#pragma unroll
      for (int v = 0; v < Vectors; ++v) sums[r][v] += left * right[v];
    }
  }
#pragma unroll
  for (int r = 0; r < Rows; ++r) {
#pragma unroll
    for (int v = 0; v < Vectors; ++v) store_lanes(c.data + r * c.row + v * kLanes, sums[r][v]);
  }
}

// What a machine is: the operand's type, values per unit, the largest tile whose sums stay in registers, and the tile itself.
struct PortableMachine {  // 16 registers of 4 floats
  using Operand = float;
  static constexpr int kValuesPerUnit = 1, kRows = 2, kVectors = 1;
  template <int Rows, int Vectors>
  static void tile(Left a, Right b, Result c, int64_t depth, bool add) {
    tile_fp32<Rows, Vectors>(a, b, c, depth, add);
  }
  template <class Task>
  static void run(const Task& task, int64_t index, void* scratch) {
    task.template run<PortableMachine>(index, scratch);
  }
};
struct Avx2Machine {  // 16 registers of 8 floats
  using Operand = float;
  static constexpr int kValuesPerUnit = 1, kRows = 6, kVectors = 1;
  template <int Rows, int Vectors>
  TRINE_AVX2 static void tile(Left a, Right b, Result c, int64_t depth, bool add) {
    tile_fp32<Rows, Vectors>(a, b, c, depth, add);
  }
  template <class Task>
  TRINE_AVX2 static void run(const Task& task, int64_t index, void* scratch) {
    task.template run<Avx2Machine>(index, scratch);
  }
};
struct Avx512Machine {  // 32 registers of 16 floats: 24 sums, 4 of B, 1 of A
  using Operand = float;
  static constexpr int kValuesPerUnit = 1, kRows = 6, kVectors = 4;
  template <int Rows, int Vectors>
  TRINE_AVX512 static void tile(Left a, Right b, Result c, int64_t depth, bool add) {
    tile_fp32<Rows, Vectors>(a, b, c, depth, add);
  }
  template <class Task>
  TRINE_AVX512 static void run(const Task& task, int64_t index, void* scratch) {
    task.template run<Avx512Machine>(index, scratch);
  }
};
#if defined(__x86_64__)
struct Avx512Bf16Machine {
  using Operand = BFloat16Bits;
  static constexpr int kValuesPerUnit = 2, kRows = 6, kVectors = 4;
  template <int Rows, int Vectors>
  TRINE_AVX512_BF16 static void tile(Left a, Right b, Result c, int64_t depth, bool add) {
    __m512 sums[Rows][Vectors];
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
#pragma unroll
      for (int v = 0; v < Vectors; ++v) sums[r][v] = add ? _mm512_loadu_ps(c.data + r * c.row + v * kLanes) : _mm512_setzero_ps();
    }
    for (int64_t k = 0; k < depth; ++k) {
      __m512bh right[Vectors];
#pragma unroll
      for (int v = 0; v < Vectors; ++v) right[v] = (__m512bh)_mm512_loadu_si512(b.data + k * b.row + v * kLanes);
#pragma unroll
      for (int r = 0; r < Rows; ++r) {
        const auto left = (__m512bh)_mm512_set1_epi32(static_cast<int>(a.data[r * a.row + k]));
#pragma unroll
        for (int v = 0; v < Vectors; ++v) sums[r][v] = _mm512_dpbf16_ps(sums[r][v], left, right[v]);
      }
    }
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
#pragma unroll
      for (int v = 0; v < Vectors; ++v) _mm512_storeu_ps(c.data + r * c.row + v * kLanes, sums[r][v]);
    }
  }
  template <class Task>
  TRINE_AVX512_BF16 static void run(const Task& task, int64_t index, void* scratch) {
    task.template run<Avx512Bf16Machine>(index, scratch);
  }
};
#endif

template <class Machine, int Vectors, int Rows = Machine::kRows>
TRINE_INLINE void tile_of_height(int64_t height, Left a, Right b, Result c, int64_t depth, bool add) {
  if (height == Rows) {
    Machine::template tile<Rows, Vectors>(a, b, c, depth, add);
  } else if constexpr (Rows > 1) {
    tile_of_height<Machine, Vectors, Rows - 1>(height, a, b, c, depth, add);
  }
}

// C[rows, columns] = (add: C +) A[rows, depth] B[depth, columns]; depth in units, columns a multiple of kLanes.
template <class Machine>
TRINE_INLINE void multiply(const Left& a, const Right& b, const Result& c, int64_t rows, int64_t columns, int64_t depth, bool add) {
  constexpr int kVectors = Machine::kVectors;
  const int64_t num_tiles = (rows + Machine::kRows - 1) / Machine::kRows;  // of heights that differ by one at most
  for (int64_t column = 0; column < columns;) {
    const int64_t panel = column / kPanel, inside = column % kPanel;
    const bool wide = columns - column >= kVectors * kLanes;
    const Right right = {b.data + panel * b.panel + inside, b.row, b.panel};
    float* top = c.data + panel * c.panel + inside;
    for (int64_t tile = 0; tile < num_tiles; ++tile) {
      const int64_t begin = rows * tile / num_tiles, height = rows * (tile + 1) / num_tiles - begin;
      const Left left = {a.data + begin * a.row, a.row};
      const Result result = {top + begin * c.row, c.row, c.panel};
      if (wide) {
        tile_of_height<Machine, kVectors>(height, left, right, result, depth, add);
      } else {
        tile_of_height<Machine, 1>(height, left, right, result, depth, add);
      }
    }
    column += wide ? kVectors * kLanes : kLanes;
  }
}

// Runs part `index` of a task compiled for `set`. bf16 operands need bf16 storage; without AVX512-BF16 the arithmetic is fp32's.
template <class Value, class Task>
void run_on(InstructionSet set, const Task& task, int64_t index, void* scratch) {
  switch (set) {
    case InstructionSet::kAvx512Bf16:
#if defined(__x86_64__)
      if constexpr (std::is_same_v<Value, BFloat16Bits>) return Avx512Bf16Machine::run(task, index, scratch);
      [[fallthrough]];
#endif
    case InstructionSet::kAvx512: return Avx512Machine::run(task, index, scratch);
    case InstructionSet::kAvx2: return Avx2Machine::run(task, index, scratch);
    case InstructionSet::kPortable: return PortableMachine::run(task, index, scratch);
  }
}

template <class Value>
int values_per_unit(InstructionSet set) {
  return std::is_same_v<Value, BFloat16Bits> && set == InstructionSet::kAvx512Bf16 ? 2 : 1;
}

}  // namespace trine
