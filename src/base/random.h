// A counter-based generator: the n-th number of a stream is a function of (seed, stream, n) and of nothing else.
//
// Initial weights, data order and sampling draw from here, so they do not depend on the number of ranks, on threads, or on what was
// drawn before, and "resume" needs no generator state. Philox4x32-10 after Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3" (SC 2011).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace trine {

using Philox4 = std::array<uint32_t, 4>;

// One block of four random words.
Philox4 philox4x32(Philox4 counter, std::array<uint32_t, 2> key);

// A stream of random numbers addressed by index. `stream` is typically a parameter's name.
class CounterRandom {
 public:
  CounterRandom(uint64_t seed, std::string_view stream);

  uint64_t bits(uint64_t index) const;                    // 64 random bits
  double uniform(uint64_t index) const;                   // in [0, 1), 53 bits
  uint64_t below(uint64_t index, uint64_t bound) const;   // in [0, bound), bias below 2^-64 · bound
  // Standard normal values number 4·first_block .. 4·(first_block + num_blocks) - 1 (Box-Muller in double, rounded to float). Every
  // instruction set and every cut into calls gives the same bits.
  void normals(uint64_t first_block, int64_t num_blocks, float* out) const;

 private:
  std::array<uint32_t, 2> key_;
  uint64_t stream_;
};

}  // namespace trine
