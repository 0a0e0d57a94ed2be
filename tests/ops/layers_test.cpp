// linear, embedding, swiglu: float64 against finite differences, fp32 and bf16 against float64.
#include "ops/embedding.h"
#include "ops/linear.h"
#include "ops/swiglu.h"
#include "tests/ops/gradients.h"

namespace trine {
namespace {

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

at::Tensor plain_swiglu(const at::Tensor& gate, const at::Tensor& up) { return gate / (1 + (-gate).exp()) * up; }

TEST(SwiGlu, ValuesAndGradientsEqualFiniteDifferences) {
  for (Implementation implementation : kBothImplementations) {
    at::Tensor gate = leaf(random_tensor({3, 5}, 1)), up = leaf(random_tensor({3, 5}, 2));
    const at::Tensor dy = random_tensor({3, 5}, 3);
    const at::Tensor y = swiglu(gate, up, implementation);
    EXPECT_LT(difference(y, plain_swiglu(gate, up)), 1e-14);
    y.backward(dy);
    const auto f = [&] { return (plain_swiglu(gate, up) * dy).sum().item<double>(); };
    EXPECT_LT(difference(gate.grad(), numeric_gradient(f, gate)), 1e-8);
    EXPECT_LT(difference(up.grad(), numeric_gradient(f, up)), 1e-8);
  }
}

TEST(SwiGlu, Fp32AndBf16AreWithinTheirRoundingOfFloat64) {
  for (Implementation implementation : kBothImplementations) {
    for (const auto& [dtype, tolerance] : {std::pair{at::kFloat, 3e-7}, {at::kBFloat16, 4e-3}}) {
      // Halves of one joint projection: rows that are not contiguous. Gates from -100 to 100.
      const at::Tensor both = (random_tensor({50, 2, 37}, 1) * 10).index_put_({0}, 100.0).index_put_({1}, -100.0).to(dtype);
      at::Tensor gate = both.select(1, 0).detach().requires_grad_(), up = both.select(1, 1).detach().requires_grad_();
      const at::Tensor dy = random_tensor({50, 37}, 2, dtype), y = swiglu(gate, up, implementation);
      EXPECT_TRUE(y.is_contiguous());
      y.backward(dy);
      at::Tensor gate64 = leaf(gate.to(at::kDouble)), up64 = leaf(up.to(at::kDouble));
      const at::Tensor expected = plain_swiglu(gate64, up64);
      expected.backward(dy.to(at::kDouble));
      EXPECT_LT(difference(y, expected), tolerance);
      EXPECT_LT(difference(gate.grad(), gate64.grad()), 2 * tolerance);
      EXPECT_LT(difference(up.grad(), up64.grad()), 2 * tolerance);
    }
  }
}

TEST(SwiGlu, RefusesTensorsThatDifferAndTakesEmptyOnes) {
  for (Implementation implementation : kBothImplementations) {
    EXPECT_THROW(swiglu(at::zeros({2, 3}), at::zeros({3}), implementation), c10::Error);
    EXPECT_THROW(swiglu(at::zeros({2}), at::zeros({2}, at::kBFloat16), implementation), c10::Error);
    at::Tensor none = leaf(at::zeros({0, 3}));
    swiglu(none, none, implementation).sum().backward();
    EXPECT_EQ(none.grad().sizes(), (std::vector<int64_t>{0, 3}));
  }
}

}  // namespace
}  // namespace trine
