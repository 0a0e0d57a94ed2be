// The generator behind random.h and its normal values, as loops that compilers turn into vector instructions.
#pragma once

#include <array>
#include <cstdint>

#include "base/cpu.h"

namespace trine {

// See CounterRandom::normals. Each step rounds as written (nothing is fused), so that `set` decides about speed only.
void draw_normals(std::array<uint32_t, 2> key, uint64_t stream, uint64_t first_block, int64_t num_blocks, float* out, InstructionSet set);

}  // namespace trine
