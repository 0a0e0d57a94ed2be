// The generator behind random.h and its normal values, as loops that compilers turn into vector instructions.
#pragma once

#include <array>
#include <cstdint>

#include "base/cpu.h"

namespace trine {

// See CounterRandom::normals. Each step rounds as written (nothing is fused), so that `set` decides about speed only.
void draw_normals(std::array<uint32_t, 2> key, uint64_t stream, uint64_t first_block, int64_t num_blocks, float* out, InstructionSet set);

constexpr int64_t kWordBlocks = 64;  // Philox blocks drawn by one call of draw_words()

// Word k of Philox block number first_block + i of a stream, at words[k][i]. The same bits from every `set`.
void draw_words(std::array<uint32_t, 2> key, uint64_t stream, uint64_t first_block, uint32_t (*words)[kWordBlocks], InstructionSet set);

}  // namespace trine
