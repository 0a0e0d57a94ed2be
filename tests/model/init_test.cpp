#include "model/init.h"

#include <gtest/gtest.h>

namespace trine {
namespace {

constexpr int64_t kCount = 40000;  // more than a piece of the parallel loop
const InitSpec kNormal{.kind = InitSpec::Kind::kNormal, .std = 0.02};

at::Tensor drawn(const std::string& name, uint64_t seed, at::ScalarType dtype = at::kFloat) {
  at::Tensor values = at::empty({kCount}, dtype);
  initialize(values, 0, kNormal, name, seed);
  return values;
}

TEST(Initialize, DoesNotDependOnHowTheParameterIsCut) {
  const at::Tensor whole = drawn("model.norm.weight", 3);
  at::Tensor cut = at::empty({kCount});
  int64_t begin = 0;
  for (int64_t size : std::vector<int64_t>{1, 2, 3, 30, 999, 17000, 5, kCount}) {
    size = std::min(size, kCount - begin);
    initialize(cut.narrow(0, begin, size), begin, kNormal, "model.norm.weight", 3);
    begin += size;
  }
  EXPECT_EQ(begin, kCount);
  EXPECT_TRUE(at::equal(cut, whole));
}

TEST(Initialize, DoesNotDependOnTheNumberOfThreads) {
  const at::Tensor many = drawn("x", 1);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  EXPECT_TRUE(at::equal(drawn("x", 1), many));
  at::set_num_threads(threads);
}

TEST(Initialize, OtherNamesAndSeedsGiveOtherValues) {
  EXPECT_FALSE(at::equal(drawn("x", 1), drawn("y", 1)));
  EXPECT_FALSE(at::equal(drawn("x", 1), drawn("x", 2)));
}

TEST(Initialize, OtherDtypesAreTheFp32ValuesRounded) {
  EXPECT_TRUE(at::equal(drawn("x", 1, at::kBFloat16), drawn("x", 1).to(at::kBFloat16)));
  EXPECT_TRUE(at::equal(drawn("x", 1, at::kDouble), drawn("x", 1).to(at::kDouble)));
}

TEST(Initialize, DrawsANormalOfTheStandardDeviationAskedFor) {
  const at::Tensor values = drawn("model.embed_tokens.weight", 5).to(at::kDouble);
  EXPECT_NEAR(values.mean().item<double>(), 0, 5 * 0.02 / std::sqrt(kCount));
  EXPECT_NEAR(values.std().item<double>(), 0.02, 5 * 0.02 / std::sqrt(2.0 * kCount));
  EXPECT_GT(values.abs().max().item<double>(), 0.07) << "the tails are not cut";
}

TEST(Initialize, NormWeightsAreOnes) {
  at::Tensor values = at::zeros({5}, at::kBFloat16);
  initialize(values, 0, {.kind = InitSpec::Kind::kOnes}, "x", 1);
  EXPECT_TRUE(at::equal(values, at::ones({5}, at::kBFloat16)));
}

}  // namespace
}  // namespace trine
