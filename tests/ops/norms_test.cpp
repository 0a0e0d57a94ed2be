// rms_norm, add_rms_norm and qk_norm_rope, both implementations: float64 against finite differences, fp32 and bf16 against float64.
#include <ATen/Parallel.h>

#include "ops/add_rms_norm.h"
#include "ops/qk_norm_rope.h"
#include "ops/rms_norm.h"
#include "ops/rope.h"
#include "tests/ops/gradients.h"

namespace trine {
namespace {

constexpr double kEps = 1e-6;

at::Tensor plain_rms_norm(const at::Tensor& x, const at::Tensor& weight) {
  const at::Tensor wide = x.to(at::kDouble);
  return wide / (wide.square().mean(-1, true) + kEps).sqrt() * weight.to(at::kDouble);
}

TEST(RmsNorm, ValuesAndGradientsEqualFiniteDifferences) {
  for (Implementation implementation : kBothImplementations) {
    at::Tensor x = leaf(random_tensor({2, 3, 6}, 1)), weight = leaf(random_tensor({6}, 2));
    const at::Tensor dy = random_tensor({2, 3, 6}, 3);
    GradientSink sink = dirty_sink(weight);
    sink.begin_step();
    const at::Tensor y = rms_norm(x, weight, kEps, &sink, implementation);
    EXPECT_LT(difference(y, plain_rms_norm(x, weight)), 1e-14);
    y.backward(dy);
    const auto f = [&] { return (plain_rms_norm(x, weight) * dy).sum().item<double>(); };
    EXPECT_LT(difference(x.grad(), numeric_gradient(f, x)), 1e-8);
    EXPECT_LT(difference(sink.gradient(), numeric_gradient(f, weight)), 1e-8);
    EXPECT_FALSE(weight.grad().defined());

    rms_norm(x, weight, kEps, nullptr, implementation).backward(dy);
    EXPECT_LT(difference(weight.grad(), sink.gradient()), 1e-14) << "without a sink autograd gets it";
  }
}

TEST(RmsNorm, ComputesInFp32WhateverTheDtypeOfX) {
  // Squares of 300 overflow fp16 and the mean of many bf16 squares would lose every small one.
  const at::Tensor x = random_tensor({4, 512}, 1, at::kBFloat16) * 300, weight = random_tensor({512}, 2, at::kBFloat16);
  const at::Tensor x32 = x.to(at::kFloat), weight32 = weight.to(at::kFloat), expected = plain_rms_norm(x, weight);
  for (Implementation implementation : kBothImplementations) {
    EXPECT_LT(difference(rms_norm(x, weight, kEps, nullptr, implementation), expected), 2.5e-3) << "half a unit of bf16's 8 bits";
    EXPECT_LT(difference(rms_norm(x32, weight32, kEps, nullptr, implementation), expected), 2e-7);
    EXPECT_LT(difference(rms_norm(x, weight32, kEps, nullptr, implementation), expected), 2.5e-3) << "fp32 weights, bf16 activations";
  }
}

TEST(RmsNorm, GradientsOfFp32AndBf16AreWithinTheirRounding) {
  for (Implementation implementation : kBothImplementations) {
    for (const auto& [dtype, tolerance] : {std::pair{at::kFloat, 1e-6}, {at::kBFloat16, 3e-3}}) {
      // 200 rows are three blocks and a rest; 70 values two lane widths and a rest; a transpose has no contiguous rows.
      const at::Tensor start = random_tensor({70, 200}, 1, dtype).t();
      at::Tensor x = start.detach().requires_grad_(), weight = leaf(random_tensor({70}, 2, dtype));
      const at::Tensor dy = random_tensor({70, 200}, 3, dtype).t();
      GradientSink sink = dirty_sink(weight, at::kFloat);
      sink.begin_step();
      rms_norm(x, weight, kEps, &sink, implementation).backward(dy);
      at::Tensor x64 = leaf(x.to(at::kDouble)), weight64 = leaf(weight.to(at::kDouble));
      plain_rms_norm(x64, weight64).backward(dy.to(at::kDouble));
      EXPECT_LT(difference(x.grad(), x64.grad()), tolerance);
      EXPECT_LT(difference(sink.gradient(), weight64.grad()), 1e-6) << "the sum over rows is fp32 throughout";
    }
  }
}

TEST(RmsNorm, RefusesAWeightOfAnotherSizeAndTakesNoRows) {
  for (Implementation implementation : kBothImplementations) {
    EXPECT_THROW(rms_norm(at::zeros({2, 4}), at::zeros({3}), kEps, nullptr, implementation), c10::Error);
    EXPECT_THROW(rms_norm(at::zeros({2, 4}), at::zeros({1, 4}), kEps, nullptr, implementation), c10::Error);
    EXPECT_THROW(rms_norm(at::zeros({2, 4}, at::kLong), at::zeros({4}), kEps, nullptr, implementation), c10::Error);
    at::Tensor x = leaf(at::zeros({0, 4})), weight = leaf(at::ones({4}));
    rms_norm(x, weight, kEps, nullptr, implementation).sum().backward();
    EXPECT_EQ(x.grad().numel(), 0);
    EXPECT_TRUE(at::equal(weight.grad(), at::zeros({4})));
  }
}

// Runs `compute` with one thread and with several; the results must have the same bits.
void expect_same_bits_for_every_thread_count(const std::function<std::vector<at::Tensor>()>& compute) {
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const std::vector<at::Tensor> one = compute();
  for (int threads : {2, 3}) {
    at::set_num_threads(threads);
    const std::vector<at::Tensor> several = compute();
    for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(at::equal(one[i], several[i])) << "result " << i << ", " << threads << " threads";
  }
  at::set_num_threads(before);
}

TEST(RmsNorm, TheWeightGradientDoesNotDependOnTheNumberOfThreads) {
  expect_same_bits_for_every_thread_count([] {
    at::Tensor x = leaf(random_tensor({3000, 96}, 1, at::kFloat)), weight = leaf(random_tensor({96}, 2, at::kFloat));
    rms_norm(x, weight, kEps, nullptr, Implementation::kFused).backward(random_tensor({3000, 96}, 3, at::kFloat));
    return std::vector<at::Tensor>{x.grad(), weight.grad()};
  });
}

TEST(AddRmsNorm, ValuesAndGradientsEqualFiniteDifferences) {
  for (Implementation implementation : kBothImplementations) {
    at::Tensor x = leaf(random_tensor({2, 3, 6}, 1)), residual = leaf(random_tensor({2, 3, 6}, 2)), weight = leaf(random_tensor({6}, 3));
    const at::Tensor dsum = random_tensor({2, 3, 6}, 4), dy = random_tensor({2, 3, 6}, 5);
    GradientSink sink = dirty_sink(weight);
    sink.begin_step();
    const auto [sum, y] = add_rms_norm(x, residual, weight, kEps, &sink, implementation);
    EXPECT_TRUE(at::equal(sum, x + residual));
    EXPECT_LT(difference(y, plain_rms_norm(sum, weight)), 1e-14);
    ((sum * dsum).sum() + (y * dy).sum()).backward();
    const auto f = [&] {
      const at::Tensor total = x + residual;
      return ((total * dsum).sum() + (plain_rms_norm(total, weight) * dy).sum()).item<double>();
    };
    EXPECT_LT(difference(x.grad(), numeric_gradient(f, x)), 1e-8);
    EXPECT_LT(difference(residual.grad(), numeric_gradient(f, residual)), 1e-8);
    EXPECT_LT(difference(sink.gradient(), numeric_gradient(f, weight)), 1e-8);
    EXPECT_FALSE(weight.grad().defined());
  }
}

TEST(AddRmsNorm, EqualsASumAndANormInFp32AndBf16) {
  for (Implementation implementation : kBothImplementations) {
    for (const auto& [dtype, tolerance] : {std::pair{at::kFloat, 1e-6}, {at::kBFloat16, 6e-3}}) {
      at::Tensor x = leaf(random_tensor({130, 40}, 1, dtype)), residual = leaf(random_tensor({130, 40}, 2, dtype));
      at::Tensor weight = leaf(random_tensor({40}, 3, dtype));
      const at::Tensor dsum = random_tensor({130, 40}, 4, dtype), dy = random_tensor({130, 40}, 5, dtype);
      const auto [sum, y] = add_rms_norm(x, residual, weight, kEps, nullptr, implementation);
      EXPECT_TRUE(at::equal(sum, x + residual)) << "rounded as a sum is";
      torch::autograd::backward({sum, y}, {dsum, dy});
      // The residual stream is the rounded sum.
      at::Tensor sum64 = leaf(sum.detach().to(at::kDouble)), weight64 = leaf(weight.to(at::kDouble));
      const at::Tensor y64 = plain_rms_norm(sum64, weight64);
      torch::autograd::backward({(sum64 * dsum.to(at::kDouble)).sum(), y64}, {{}, dy.to(at::kDouble)});
      EXPECT_LT(difference(y, y64), tolerance);
      EXPECT_LT(difference(x.grad(), sum64.grad()), tolerance);
      EXPECT_TRUE(at::equal(x.grad(), residual.grad()));
      EXPECT_LT(difference(weight.grad(), weight64.grad()), tolerance);
    }
    EXPECT_THROW(add_rms_norm(at::zeros({2, 4}), at::zeros({4}), at::zeros({4}), kEps, nullptr, implementation), c10::Error);
  }
}

struct QkCase {
  at::Tensor x, weight, cos, sin, positions, dy;
};
// x is the middle of a joint projection [B, S, 2 + H + 1, D].
QkCase make_qk_case(int64_t batch, int64_t length, int64_t num_heads, int64_t head_dim, at::ScalarType dtype) {
  std::vector<float> inv_freq;
  for (int64_t i = 0; i < head_dim / 2; ++i) inv_freq.push_back(1.0f / static_cast<float>(1 + 3 * i));
  const auto [cos, sin] = RopeTable(inv_freq, 1.0, 2 * length).rows(2 * length);
  const at::Tensor projected = random_tensor({batch, length, num_heads + 3, head_dim}, 1, dtype);
  const at::Tensor positions = at::arange(batch * length, at::kLong).mul_(5).remainder_(2 * length).view({batch, length});
  return {projected.narrow(2, 2, num_heads).detach().requires_grad_(), leaf(random_tensor({head_dim}, 2, dtype)), cos, sin, positions,
          random_tensor({batch, num_heads, length, head_dim}, 3, dtype)};
}
at::Tensor plain_qk_norm_rope(const at::Tensor& x, const at::Tensor& weight, const QkCase& c) {
  const at::Tensor normed = plain_rms_norm(x, weight).transpose(1, 2);
  return rope(normed, c.cos.index({c.positions}), c.sin.index({c.positions}));
}

TEST(QkNormRope, ValuesAndGradientsEqualFiniteDifferences) {
  for (Implementation implementation : kBothImplementations) {
    QkCase c = make_qk_case(2, 3, 2, 4, at::kDouble);
    at::Tensor x = leaf(c.x.contiguous());
    GradientSink sink = dirty_sink(c.weight);
    sink.begin_step();
    const at::Tensor y = qk_norm_rope(x, c.weight, c.cos, c.sin, c.positions, kEps, &sink, implementation);
    EXPECT_LT(difference(y, plain_qk_norm_rope(x, c.weight, c)), 1e-7) << "fp32 tables";
    y.backward(c.dy);
    const auto f = [&] {
      at::NoGradGuard no_grad;
      return (plain_qk_norm_rope(x, c.weight, c) * c.dy).sum().item<double>();
    };
    EXPECT_LT(difference(x.grad(), numeric_gradient(f, x)), 1e-7);
    EXPECT_LT(difference(sink.gradient(), numeric_gradient(f, c.weight)), 1e-7);
    EXPECT_FALSE(c.weight.grad().defined());
  }
}

TEST(QkNormRope, EqualsANormAndARotationInFp32AndBf16) {
  for (Implementation implementation : kBothImplementations) {
    for (const auto& [dtype, tolerance] : {std::pair{at::kFloat, 1e-6}, {at::kBFloat16, 3e-3}}) {
      QkCase c = make_qk_case(2, 37, 3, 66, dtype);
      GradientSink sink = dirty_sink(c.weight, at::kFloat);
      sink.begin_step();
      const at::Tensor y = qk_norm_rope(c.x, c.weight, c.cos, c.sin, c.positions, kEps, &sink, implementation);
      EXPECT_EQ(y.sizes(), (std::vector<int64_t>{2, 3, 37, 66}));
      EXPECT_TRUE(y.is_contiguous());
      y.backward(c.dy);
      at::Tensor x64 = leaf(c.x.to(at::kDouble)), weight64 = leaf(c.weight.to(at::kDouble));
      const at::Tensor expected = plain_qk_norm_rope(x64, weight64, c);
      expected.backward(c.dy.to(at::kDouble));
      EXPECT_LT(difference(y, expected), tolerance);
      EXPECT_LT(difference(c.x.grad(), x64.grad()), tolerance);
      EXPECT_LT(difference(sink.gradient(), weight64.grad()), 1e-6) << "the sum over heads is fp32 throughout";
      // Tables with one row for each position say the same as positions 0..S-1.
      const at::Tensor cos = c.cos.narrow(0, 0, 37), sin = c.sin.narrow(0, 0, 37), straight = at::arange(37).expand({2, 37});
      EXPECT_TRUE(at::equal(qk_norm_rope(c.x, c.weight, cos, sin, {}, kEps, nullptr, implementation),
                            qk_norm_rope(c.x, c.weight, c.cos, c.sin, straight, kEps, nullptr, implementation)));
    }
  }
}

TEST(QkNormRope, TheWeightGradientDoesNotDependOnTheNumberOfThreads) {
  expect_same_bits_for_every_thread_count([] {
    QkCase c = make_qk_case(2, 300, 8, 64, at::kFloat);
    qk_norm_rope(c.x, c.weight, c.cos, c.sin, c.positions, kEps, nullptr, Implementation::kFused).backward(c.dy);
    return std::vector<at::Tensor>{c.x.grad(), c.weight.grad()};
  });
}

TEST(QkNormRope, RefusesShapesThatDoNotFit) {
  for (Implementation implementation : kBothImplementations) {
    const QkCase c = make_qk_case(2, 3, 2, 4, at::kFloat);
    EXPECT_THROW(qk_norm_rope(c.x, at::ones({2}), c.cos, c.sin, c.positions, kEps, nullptr, implementation), c10::Error);
    EXPECT_THROW(qk_norm_rope(c.x, c.weight, c.cos, c.sin, {}, kEps, nullptr, implementation), c10::Error) << "6 rows for 3 positions";
    EXPECT_THROW(qk_norm_rope(c.x, c.weight, c.cos, c.sin, c.positions + 6, kEps, nullptr, implementation), c10::Error);
  }
}

}  // namespace
}  // namespace trine
