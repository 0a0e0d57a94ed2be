#include "base/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

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

TEST(CounterRandom, NormalValuesHaveMeanZeroAndVarianceOne) {
  const CounterRandom random(42, "model.embed_tokens.weight");
  double sum = 0, squares = 0;
  constexpr int kBlocks = 50000;
  for (int block = 0; block < kBlocks; ++block) {
    for (float value : random.normal4(block)) {
      sum += value;
      squares += double(value) * value;
    }
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
