#include "base/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <set>
#include <vector>

#include "base/random_cpu.h"

namespace trine {
namespace {

// Known answers of Philox4x32-10 from the authors' Random123 test vectors.
TEST(Philox, GivesThePublishedAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Philox4{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Philox4{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(CounterRandom, DependsOnSeedStreamAndIndexOnly) {
  const CounterRandom a(1, "x"), same(1, "x"), other_seed(2, "x"), other_stream(1, "y");
  EXPECT_EQ(a.bits(5), same.bits(5));
  EXPECT_NE(a.bits(5), other_seed.bits(5));
  EXPECT_NE(a.bits(5), other_stream.bits(5));
  EXPECT_NE(a.bits(5), a.bits(6));
}

std::vector<float> draw(const CounterRandom& random, uint64_t first_block, int64_t num_blocks) {
  std::vector<float> values(static_cast<size_t>(4 * num_blocks));
  random.normals(first_block, num_blocks, values.data());
  return values;
}

// Box-Muller as the textbook has it, by the C library.
std::vector<double> box_muller(const Philox4& word) {
  std::vector<double> values;
  for (size_t pair = 0; pair < 4; pair += 2) {
    const double radius = std::sqrt(-2 * std::log((word[pair] + 1.0) * 0x1p-32)), angle = 2 * std::numbers::pi * word[pair + 1] * 0x1p-32;
    values.push_back(radius * std::cos(angle));
    values.push_back(radius * std::sin(angle));
  }
  return values;
}

TEST(CounterRandom, NormalValuesEqualBoxMullerByTheLibrary) {
  constexpr int kBlocks = 20000;
  const uint64_t seed = 3, stream = 0xcbf29ce484222325u;  // FNV-1a of the empty name
  const std::vector<float> values = draw(CounterRandom(seed, ""), 0, kBlocks);
  for (uint32_t block = 0; block < kBlocks; ++block) {
    const auto expected = box_muller(philox4x32({block, 0, static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)}, {3, 0}));
    for (size_t k = 0; k < 4; ++k) ASSERT_NEAR(values[4 * block + k], expected[k], 6e-8 * std::abs(expected[k]) + 1e-10) << block;
  }
}

TEST(CounterRandom, NormalValuesDoNotDependOnCutsOrInstructionSet) {
  const CounterRandom random(9, "x");
  const std::vector<float> all = draw(random, 1000, 300);
  for (const auto& [first, count] : {std::pair{0, 1}, {1, 64}, {63, 130}, {299, 1}}) {
    const std::vector<float> part = draw(random, static_cast<uint64_t>(1000 + first), count);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + 4 * first));
  }
  for (InstructionSet set : {InstructionSet::kPortable, InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    if (set > instruction_set()) continue;
    std::vector<float> reference(4 * 300), values(4 * 300);
    draw_normals({1, 2}, 77, uint64_t{1} << 33, 300, reference.data(), InstructionSet::kPortable);
    draw_normals({1, 2}, 77, uint64_t{1} << 33, 300, values.data(), set);
    EXPECT_EQ(values, reference);
  }
}

TEST(CounterRandom, WordsAreThoseOfTheBlocksFromEveryInstructionSet) {
  constexpr uint64_t kFirst = (uint64_t{5} << 32) - 3, kStream = (uint64_t{7} << 32) + 9;  // across the low word's end
  for (InstructionSet set : {InstructionSet::kPortable, InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    if (set > instruction_set()) continue;
    uint32_t words[4][kWordBlocks];
    draw_words({1, 2}, kStream, kFirst, words, set);
    for (size_t i = 0; i < kWordBlocks; ++i) {
      const uint64_t block = kFirst + i;
      const Philox4 expected = philox4x32({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 9, 7}, {1, 2});
      for (size_t k = 0; k < 4; ++k) ASSERT_EQ(words[k][i], expected[k]) << i << ", " << k;
    }
  }
}

TEST(CounterRandom, NormalValuesHaveMeanZeroAndVarianceOne) {
  const CounterRandom random(42, "model.embed_tokens.weight");
  double sum = 0, squares = 0;
  constexpr int kBlocks = 50000;
  for (float value : draw(random, 0, kBlocks)) {
    sum += value;
    squares += double(value) * value;
  }
  const double count = 4.0 * kBlocks, mean = sum / count;
  EXPECT_NEAR(mean, 0, 5 / std::sqrt(count));
  EXPECT_NEAR(squares / count - mean * mean, 1, 5 * std::sqrt(2 / count));
}

TEST(CounterRandom, BelowReachesEveryValueAndNeverTheBound) {
  const CounterRandom random(0, "order");
  std::set<uint64_t> seen;
  for (uint64_t i = 0; i < 200; ++i) seen.insert(random.below(i, 7));
  EXPECT_EQ(seen.size(), 7u);
  EXPECT_LT(*seen.rbegin(), 7u);
}

}  // namespace
}  // namespace trine
