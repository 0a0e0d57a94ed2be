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

struct Tables {
  at::Tensor cos, sin;
};
Tables tables_of(int64_t head_dim, int64_t length) {
  const auto [cos, sin] = RopeTable(frequencies(head_dim, 1e4), 1.0, length).rows(length);
  return {cos, sin};
}

// Every way to say the same rotation gives the bits of the reference with whole tables and BHSD.
TEST(Rope, FusedHasTheBitsOfTheReferenceInEveryLayoutGatheredOrNot) {
  const Tables t = tables_of(10, 64);
  const at::Tensor positions = torch::tensor({{0, 1, 2, 3, 0, 1}, {63, 7, 7, 0, 1, 2}}, at::kLong);
  const at::Tensor cos_bsd = t.cos.index({positions}), sin_bsd = t.sin.index({positions});
  for (at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
    const at::Tensor x = random_tensor({2, 3, 6, 10}, 1, dtype), dy = random_tensor({2, 3, 6, 10}, 2, dtype);
    const auto run = [&](const at::Tensor& cos, const at::Tensor& sin, RopeLayout layout, std::optional<at::Tensor> rows,
                         Implementation implementation) {
      const bool swap = layout == RopeLayout::kBshd;
      at::Tensor leaf_x = leaf(x);
      // In one of the cases a layout is a view with other strides.
      at::Tensor y = rope(swap ? leaf_x.transpose(1, 2) : leaf_x, cos, sin, layout, rows, implementation);
      EXPECT_TRUE(y.is_contiguous());
      y = swap ? y.transpose(1, 2) : y;
      y.backward(dy);
      return std::pair(y.detach(), leaf_x.grad());
    };
    const auto expected = run(cos_bsd, sin_bsd, RopeLayout::kBhsd, std::nullopt, Implementation::kReference);
    for (Implementation implementation : kBothImplementations) {
      for (RopeLayout layout : {RopeLayout::kBhsd, RopeLayout::kBshd}) {
        const auto given = run(cos_bsd, sin_bsd, layout, std::nullopt, implementation);
        const auto gathered = run(t.cos, t.sin, layout, positions, implementation);
        EXPECT_TRUE(at::equal(given.first, expected.first) && at::equal(given.second, expected.second)) << dtype;
        EXPECT_TRUE(at::equal(gathered.first, expected.first) && at::equal(gathered.second, expected.second)) << dtype;
      }
    }
    const Tables whole = tables_of(10, 6);
    const auto plain = run(whole.cos, whole.sin, RopeLayout::kBhsd, std::nullopt, Implementation::kReference);
    EXPECT_LT(difference(plain.first, plain_rope(x, 1e4)), dtype == at::kBFloat16 ? 4e-3 : 1e-6);
    for (RopeLayout layout : {RopeLayout::kBhsd, RopeLayout::kBshd}) {
      const auto fused = run(whole.cos, whole.sin, layout, std::nullopt, Implementation::kFused);
      EXPECT_TRUE(at::equal(fused.first, plain.first) && at::equal(fused.second, plain.second)) << dtype;
    }
  }
}

TEST(Rope, LayoutIsTakenAtItsWordWhereHeadsAndPositionsAreAsMany) {  // case G3
  const Tables t = tables_of(8, 4);
  const at::Tensor x_bhsd = random_tensor({1, 4, 4, 8}, 1, at::kFloat), x_bshd = x_bhsd.transpose(1, 2).contiguous();
  for (Implementation implementation : kBothImplementations) {
    const at::Tensor y = rope(x_bhsd, t.cos, t.sin, RopeLayout::kBhsd, {}, implementation);
    EXPECT_LT(difference(y, plain_rope(x_bhsd, 1e4)), 1e-6);
    EXPECT_TRUE(at::equal(rope(x_bshd, t.cos, t.sin, RopeLayout::kBshd, {}, implementation).transpose(1, 2), y));
    EXPECT_FALSE(at::equal(rope(x_bhsd, t.cos, t.sin, RopeLayout::kBshd, {}, implementation), y));
  }
}

TEST(Rope, TablesGetNoGradientFromAnyImplementation) {
  for (Implementation implementation : kBothImplementations) {
    const Tables t = tables_of(8, 4);
    at::Tensor x = leaf(random_tensor({1, 2, 4, 8}, 1, at::kFloat)), cos = leaf(t.cos), sin = leaf(t.sin);
    rope(x, cos, sin, RopeLayout::kBhsd, {}, implementation).sum().backward();
    EXPECT_TRUE(x.grad().defined());
    EXPECT_FALSE(cos.grad().defined() || sin.grad().defined());
  }
}

TEST(Rope, RefusesTablesAndPositionsThatDoNotFit) {
  const Tables t = tables_of(8, 16);
  const at::Tensor x = at::zeros({2, 1, 4, 8}), good = at::zeros({2, 4}, at::kLong);
  for (Implementation implementation : kBothImplementations) {
    const auto refuses = [&](const at::Tensor& cos, std::optional<at::Tensor> positions, RopeLayout layout = RopeLayout::kBhsd) {
      EXPECT_THROW(rope(x, cos, cos, layout, positions, implementation), c10::Error);
    };
    refuses(t.cos, {});                                            // 16 rows for 4 positions
    refuses(t.cos.narrow(0, 0, 4), {}, RopeLayout::kBshd);         // 4 rows for 1 position
    refuses(t.cos.narrow(0, 0, 4).to(at::kBFloat16), {});          // case E5
    refuses(t.cos.narrow(0, 0, 4).narrow(1, 0, 3), {});            // 3 columns for half a head of 4
    refuses(t.cos.narrow(0, 0, 4).expand({3, 4, 4}), {});          // 3 rows of a batch of 2
    refuses(t.cos, at::zeros({2, 3}, at::kLong));
    refuses(t.cos, at::zeros({2, 4}, at::kInt));
    refuses(t.cos, good + 16);
    refuses(t.cos, good - 17);
    EXPECT_NO_THROW(rope(x, t.cos, t.sin, RopeLayout::kBhsd, good, implementation));
    EXPECT_EQ(rope(x.narrow(0, 0, 0), t.cos, t.sin, RopeLayout::kBhsd, good.narrow(0, 0, 0), implementation).numel(), 0);
  }
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
