// One kernel body compiled once per instruction set, for the kernels that have no torch in them.
//
//   struct Scale {
//     TRINE_INLINE static void run(float* values, int64_t count, float factor) { ... }
//   };
//   run_clone<Scale>(set, values, count, factor);
#pragma once

#include "base/cpu.h"

// A clone is compiled for its set only where the body is part of it.
#define TRINE_INLINE __attribute__((always_inline)) inline

namespace trine {

template <class Kernel, class... Arguments>
TRINE_AVX512 void run_avx512(Arguments... arguments) {
  Kernel::run(arguments...);
}
template <class Kernel, class... Arguments>
TRINE_AVX2 void run_avx2(Arguments... arguments) {
  Kernel::run(arguments...);
}

template <class Kernel, class... Arguments>
void run_clone(InstructionSet set, Arguments... arguments) {
  // A set that no clone is made for gets the widest one below it.
  if (set >= InstructionSet::kAvx512) return run_avx512<Kernel>(arguments...);
  if (set >= InstructionSet::kAvx2) return run_avx2<Kernel>(arguments...);
  Kernel::run(arguments...);
}

}  // namespace trine
