// linear, embedding, rms_norm, swiglu: float64 against finite differences, fp32 and bf16 against float64.
#include "ops/embedding.h"
#include "ops/linear.h"
#include "ops/rms_norm.h"
#include "ops/swiglu.h"
#include "tests/ops/gradients.h"

namespace trine {
namespace {

constexpr double kEps = 1e-6;

TEST(Linear, GradientsEqualFiniteDifferencesAndTheWeightsGoesToTheSink) {
  at::Tensor x = leaf(random_tensor({2, 3, 4}, 1)), weight = leaf(random_tensor({5, 4}, 2));
  const at::Tensor dy = random_tensor({2, 3, 5}, 3);
  GradientSink sink = dirty_sink(weight);
  sink.begin_step();
  linear(x, weight, &sink).backward(dy);
  const auto f = [&] { return (at::matmul(x, weight.t()) * dy).sum().item<double>(); };
  EXPECT_LT(difference(x.grad(), numeric_gradient(f, x)), 1e-8);
  EXPECT_LT(difference(sink.gradient(), numeric_gradient(f, weight)), 1e-8);
  EXPECT_FALSE(weight.grad().defined());

  trine::linear(x, weight).backward(dy);
  EXPECT_LT(difference(weight.grad(), sink.gradient()), 1e-12) << "without a sink autograd gets it";
}

TEST(Embedding, GivesRowsAndAddsTheirGradientsById) {
  at::Tensor weight = leaf(random_tensor({6, 3}, 1, at::kFloat));
  const at::Tensor ids = torch::tensor({{1, 5, 1}, {0, 1, 5}}, at::kLong), dy = random_tensor({2, 3, 3}, 2, at::kFloat);
  GradientSink sink = dirty_sink(weight);
  sink.begin_step();
  const at::Tensor y = embedding(ids, weight, &sink);
  EXPECT_TRUE(at::equal(y, weight.index_select(0, ids.view({-1})).view({2, 3, 3})));
  y.backward(dy);
  EXPECT_LT(difference(sink.gradient(), at::zeros({6, 3}).index_add(0, ids.view({-1}), dy.view({6, 3}))), 1e-6);
  EXPECT_FALSE(weight.grad().defined());

  trine::embedding(ids, weight).backward(dy);
  EXPECT_LT(difference(weight.grad(), sink.gradient()), 1e-6) << "without a sink autograd gets it";
}

at::Tensor plain_rms_norm(const at::Tensor& x, const at::Tensor& weight) {
  const at::Tensor wide = x.to(at::kDouble);
  return wide / (wide.square().mean(-1, true) + kEps).sqrt() * weight.to(at::kDouble);
}

TEST(RmsNorm, ValuesAndGradientsEqualFiniteDifferences) {
  at::Tensor x = leaf(random_tensor({2, 3, 6}, 1)), weight = leaf(random_tensor({6}, 2));
  const at::Tensor dy = random_tensor({2, 3, 6}, 3);
  GradientSink sink = dirty_sink(weight);
  sink.begin_step();
  const at::Tensor y = rms_norm(x, weight, kEps, &sink);
  EXPECT_LT(difference(y, plain_rms_norm(x, weight)), 1e-14);
  y.backward(dy);
  const auto f = [&] { return (plain_rms_norm(x, weight) * dy).sum().item<double>(); };
  EXPECT_LT(difference(x.grad(), numeric_gradient(f, x)), 1e-8);
  EXPECT_LT(difference(sink.gradient(), numeric_gradient(f, weight)), 1e-8);

  rms_norm(x, weight, kEps).backward(dy);
  EXPECT_LT(difference(weight.grad(), sink.gradient()), 1e-14) << "without a sink autograd gets it";
}

TEST(RmsNorm, ComputesInFp32WhateverTheDtypeOfX) {
  // Squares of 300 overflow fp16 and the mean of many bf16 squares would lose every small one.
  const at::Tensor x = random_tensor({4, 512}, 1, at::kBFloat16) * 300, weight = random_tensor({512}, 2, at::kBFloat16);
  EXPECT_LT(difference(rms_norm(x, weight, kEps), plain_rms_norm(x, weight)), 2.5e-3) << "half a unit of bf16's 8 bits";
  const at::Tensor x32 = x.to(at::kFloat), weight32 = weight.to(at::kFloat);
  EXPECT_LT(difference(rms_norm(x32, weight32, kEps), plain_rms_norm(x, weight)), 1e-6);
}

TEST(RmsNorm, GradientsOfBf16AreWithinItsRounding) {
  at::Tensor x = leaf(random_tensor({8, 64}, 1, at::kBFloat16)), weight = leaf(random_tensor({64}, 2, at::kBFloat16));
  const at::Tensor dy = random_tensor({8, 64}, 3, at::kBFloat16);
  GradientSink sink = dirty_sink(weight, at::kFloat);
  sink.begin_step();
  rms_norm(x, weight, kEps, &sink).backward(dy);
  at::Tensor x64 = leaf(x.to(at::kDouble)), weight64 = leaf(weight.to(at::kDouble));
  plain_rms_norm(x64, weight64).backward(dy.to(at::kDouble));
  EXPECT_LT(difference(x.grad(), x64.grad()), 3e-3);
  EXPECT_LT(difference(sink.gradient(), weight64.grad()), 1e-6) << "the sum over rows is fp32 throughout";
}

TEST(SwiGlu, ValuesAndGradientsEqualFiniteDifferences) {
  at::Tensor gate = leaf(random_tensor({3, 5}, 1)), up = leaf(random_tensor({3, 5}, 2));
  const at::Tensor dy = random_tensor({3, 5}, 3);
  const auto plain = [&] { return gate / (1 + (-gate).exp()) * up; };
  const at::Tensor y = swiglu(gate, up);
  EXPECT_LT(difference(y, plain()), 1e-14);
  y.backward(dy);
  const auto f = [&] { return (plain() * dy).sum().item<double>(); };
  EXPECT_LT(difference(gate.grad(), numeric_gradient(f, gate)), 1e-8);
  EXPECT_LT(difference(up.grad(), numeric_gradient(f, up)), 1e-8);
}

}  // namespace
}  // namespace trine
