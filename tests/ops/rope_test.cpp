#include "ops/rope.h"

#include <cmath>

#include "base/errors.h"
#include "tests/ops/gradients.h"

namespace trine {
namespace {

std::vector<float> frequencies(int64_t head_dim, double theta) {
  std::vector<float> result;
  for (int64_t i = 0; i < head_dim / 2; ++i) {
    result.push_back(static_cast<float>(std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim))));
  }
  return result;
}

// The rotation written out per element, in float64.
at::Tensor plain_rope(const at::Tensor& x_bhsd, double theta) {
  at::Tensor y = at::empty_like(x_bhsd, at::kDouble);
  const int64_t length = x_bhsd.size(2), half = x_bhsd.size(3) / 2;
  const std::vector<float> inv_freq = frequencies(2 * half, theta);
  for (int64_t s = 0; s < length; ++s) {
    for (int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(s) * inv_freq[static_cast<size_t>(i)];
      const at::Tensor a = x_bhsd.select(2, s).select(2, i).to(at::kDouble), b = x_bhsd.select(2, s).select(2, i + half).to(at::kDouble);
      y.select(2, s).select(2, i).copy_(a * std::cos(angle) - b * std::sin(angle));
      y.select(2, s).select(2, i + half).copy_(b * std::cos(angle) + a * std::sin(angle));
    }
  }
  return y;
}

TEST(Rope, PairsAnElementWithTheOneHalfAHeadAway) {  // case G1
  RopeTable table(frequencies(4, 1e6), 1.0, 16);
  const auto [cos, sin] = table.rows(2);
  const at::Tensor x = at::arange(1, 5, at::kFloat).view({1, 1, 1, 4});
  const at::Tensor y = rope(x, cos.narrow(0, 1, 1), sin.narrow(0, 1, 1)).view({4});
  EXPECT_TRUE(at::allclose(y, torch::tensor({-1.984111, 1.995999, 2.462378, 4.001998}, at::kFloat), 0, 1e-6)) << y;
}

TEST(Rope, TurnsAllHeadsOfATokenAlikeAndByItsPlaceInTheSequence) {  // case G3: as many heads as positions
  RopeTable table(frequencies(8, 1e4), 1.0, 64);
  const auto [cos, sin] = table.rows(4);
  const at::Tensor x = random_tensor({2, 4, 4, 8}, 1);
  EXPECT_LT(difference(rope(x, cos, sin), plain_rope(x, 1e4)), 1e-6);
  const at::Tensor same = random_tensor({1, 1, 4, 8}, 2).expand({1, 4, 4, 8});
  const at::Tensor y = rope(same, cos, sin);
  for (int64_t head = 1; head < 4; ++head) EXPECT_TRUE(at::equal(y.select(1, head), y.select(1, 0)));
}

TEST(Rope, TablesOfEachRowOfABatchTurnThatRow) {
  RopeTable table(frequencies(8, 1e4), 1.0, 64);
  const auto [cos, sin] = table.rows(5);
  const at::Tensor positions = torch::tensor({{0, 1, 2, 3, 4}, {0, 1, 0, 1, 2}}, at::kLong);
  const at::Tensor x = random_tensor({2, 3, 5, 8}, 1);
  const at::Tensor y = rope(x, cos.index({positions}), sin.index({positions}));
  EXPECT_TRUE(at::equal(y[0], rope(x.narrow(0, 0, 1), cos, sin)[0]));
  const at::Tensor second_piece = x.narrow(0, 1, 1).narrow(2, 2, 3);
  EXPECT_TRUE(at::equal(y.narrow(0, 1, 1).narrow(2, 2, 3), rope(second_piece, cos.narrow(0, 0, 3), sin.narrow(0, 0, 3))));
}

TEST(Rope, GradientEqualsFiniteDifferences) {
  RopeTable table(frequencies(6, 1e4), 1.25, 64);  // with an attention factor, as YaRN has
  const auto [cos, sin] = table.rows(3);
  at::Tensor x = leaf(random_tensor({1, 2, 3, 6}, 1));
  const at::Tensor dy = random_tensor({1, 2, 3, 6}, 2);
  rope(x, cos, sin).backward(dy);
  const auto f = [&] {
    at::NoGradGuard no_grad;
    return (rope(x, cos, sin) * dy).sum().item<double>();
  };
  EXPECT_LT(difference(x.grad(), numeric_gradient(f, x)), 1e-8);
}

TEST(Rope, AnglesOfFarPositionsAreFp32WhateverTheDtypeOfX) {  // case E5
  RopeTable table({1.0f}, 1.0, 40000);
  const auto [cos, sin] = table.rows(32768);
  EXPECT_EQ(cos.scalar_type(), at::kFloat);
  EXPECT_NEAR(cos[4095][0].item<double>(), -0.065976, 1e-6);
  EXPECT_NEAR(cos[32767][0].item<double>(), 0.982263, 1e-6);
  const at::Tensor x = torch::tensor({1.0, 0.0}, at::kBFloat16).view({1, 1, 1, 2});
  const at::Tensor y = rope(x, cos.narrow(0, 4095, 1), sin.narrow(0, 4095, 1));
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_NEAR(y.view({2})[0].item<double>(), -0.065976, 0.065976 / 256) << "only the result is rounded";
  EXPECT_TRUE(at::equal(table.rows(32768).first, cos)) << "using it with bf16 does not touch the table";
}

TEST(RopeTable, ShortLongShortGivesTheValuesOfAFreshTable) {  // case G6
  const std::vector<float> inv_freq = frequencies(16, 1e6);
  RopeTable table(inv_freq, 1.0, 1000);
  for (int64_t length : {8, 700, 8, 1000}) {
    RopeTable fresh(inv_freq, 1.0, 1000);
    EXPECT_TRUE(at::equal(table.rows(length).first, fresh.rows(length).first)) << length;
    EXPECT_TRUE(at::equal(table.rows(length).second, fresh.rows(length).second)) << length;
  }
  try {
    table.rows(1001);
    FAIL() << "a row past the end must be an error";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("1001"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("1000"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace trine
