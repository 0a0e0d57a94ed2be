#include "ops/gradient_sink.h"

#include "tests/ops/gradients.h"

namespace trine {
namespace {

TEST(GradientSink, StoresTheFirstGradientOfAStepAndAddsLaterOnes) {
  const at::Tensor a = random_tensor({3, 4}, 1, at::kFloat), b = random_tensor({3, 4}, 2, at::kFloat);
  GradientSink sink = dirty_sink(a);
  for (int step = 0; step < 2; ++step) {
    sink.begin_step();
    sink.add(a);
    sink.add(b);
    sink.finish_step();
    EXPECT_TRUE(at::equal(sink.gradient(), a + b)) << "step " << step;
  }
}

TEST(GradientSink, IsZeroAfterAStepInWhichNothingCame) {
  GradientSink sink = dirty_sink(at::empty({2, 3}), at::kFloat);
  sink.begin_step();
  sink.finish_step();
  EXPECT_TRUE(at::equal(sink.gradient(), at::zeros({2, 3})));
}

TEST(GradientSink, ProductsOfOneTypeAndOfAnotherGiveTheSameSum) {
  const at::Tensor a = random_tensor({3, 5}, 1, at::kFloat), b = random_tensor({5, 4}, 2, at::kFloat);
  GradientSink sink = dirty_sink(at::empty({3, 4}), at::kFloat);
  sink.begin_step();
  sink.add_product(a, b);
  sink.add_product(a, b);
  EXPECT_LT(difference(sink.gradient(), 2 * at::mm(a, b)), 1e-6);

  GradientSink wide = dirty_sink(at::empty({3, 4}), at::kFloat);
  wide.begin_step();
  wide.add_product(a.to(at::kBFloat16), b.to(at::kBFloat16));
  wide.add_product(a.to(at::kBFloat16), b.to(at::kBFloat16));
  EXPECT_LT(difference(wide.gradient(), 2 * at::mm(a, b)), 1e-2);
}

TEST(GradientSink, RowsOfOneIdAreSummedInFp32BeforeTheyReachABf16Gradient) {
  // 1 + 300 · 2^-8: one by one in bf16 every small row would round away; the sum is 2.171875, which bf16 holds as 2.171875.
  at::Tensor rows = at::full({301, 2}, 1.0 / 256, at::TensorOptions(at::kBFloat16));
  rows[0].fill_(1);
  GradientSink sink = dirty_sink(at::empty({4, 2}), at::kBFloat16);
  sink.begin_step();
  sink.add_rows(at::full({301}, 2, at::kLong), rows);
  at::Tensor expected = at::zeros({4, 2}, at::TensorOptions(at::kBFloat16));
  expected[2].fill_(1 + 300.0 / 256);
  EXPECT_TRUE(at::equal(sink.gradient(), expected));
}

TEST(GradientSink, RowsAreAddedToADenseGradientThatCameFirst) {
  const at::Tensor dense = random_tensor({5, 3}, 1, at::kFloat), rows = random_tensor({4, 3}, 2, at::kFloat);
  const at::Tensor ids = torch::tensor({4, 0, 4, 2}, at::kLong);
  GradientSink sink = dirty_sink(dense);
  sink.begin_step();
  sink.add(dense);
  sink.add_rows(ids, rows);
  EXPECT_LT(difference(sink.gradient(), dense.index_add(0, ids, rows)), 1e-6);
}

}  // namespace
}  // namespace trine
