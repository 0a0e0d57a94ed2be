#include "ops/grad_norm.h"

#include <cmath>
#include <limits>

#include "ops/grad_norm_cpu.h"
#include "tests/ops/gradients.h"

namespace trine {
namespace {

TEST(GradNorm, OfAnyDtypeIsThatOfFloat64AcrossPieces) {
  const int64_t more_than_a_piece = (int64_t{1} << 21) + 5;
  const at::Tensor x = at::linspace(-1, 1, more_than_a_piece, at::kDouble);
  for (Implementation implementation : kBothImplementations) {
    for (at::ScalarType dtype : {at::kDouble, at::kFloat, at::kBFloat16}) {
      const at::Tensor rounded = x.to(dtype);
      const double expected = rounded.to(at::kDouble).square().sum().sqrt().item<double>();
      EXPECT_NEAR(grad_norm(rounded, implementation) / expected, 1, dtype == at::kDouble ? 1e-12 : 1e-7);
    }
  }
}

TEST(GradNorm, TakesTensorsOfAnyShapesStridesAndDtypesTogether) {
  const std::vector<at::Tensor> gradients = {random_tensor({30, 7}, 1, at::kFloat).t(), random_tensor({5, 4, 3}, 2, at::kBFloat16),
                                             at::zeros({0, 4}), random_tensor({}, 3, at::kFloat),
                                             random_tensor({40}, 4, at::kFloat).slice(0, 0, 40, 3)};
  double squares = 0;
  for (const at::Tensor& gradient : gradients) squares += gradient.to(at::kDouble).square().sum().item<double>();
  for (Implementation implementation : kBothImplementations) EXPECT_NEAR(grad_norm(gradients, implementation) / std::sqrt(squares), 1, 1e-7);
  EXPECT_EQ(grad_norm(at::zeros({0})), 0);
}

TEST(GradNorm, EveryInstructionSetAndNumberOfThreadsGivesTheSameBits) {
  const at::Tensor x = random_tensor({(int64_t{1} << 20) + 4099}, 1, at::kFloat), y = random_tensor({77}, 2, at::kFloat);
  for (InstructionSet set : {InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    if (set > instruction_set()) continue;
    EXPECT_EQ(sum_of_squares_cpu(x.data_ptr<float>(), x.numel(), set),
              sum_of_squares_cpu(x.data_ptr<float>(), x.numel(), InstructionSet::kPortable));
  }
  const double norm = grad_norm({x, y});
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  EXPECT_EQ(grad_norm({x, y}), norm);
  at::set_num_threads(threads);
}

TEST(GradNorm, IsNanForAnyNanAndElseInfiniteForAnyInfinity) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  for (Implementation implementation : kBothImplementations) {
    for (at::ScalarType dtype : {at::kDouble, at::kFloat, at::kBFloat16}) {
      at::Tensor a = at::ones({5000}, dtype), b = at::ones({3}, dtype);
      a[4999] = -kInfinity;
      EXPECT_EQ(grad_norm({a, b}, implementation), kInfinity);
      b[1] = kNan;
      EXPECT_TRUE(std::isnan(grad_norm({a, b}, implementation)));
    }
  }
  EXPECT_EQ(grad_norm(at::full({1}, 2e19, at::kFloat)), kInfinity) << "its square overflows";
  EXPECT_NEAR(grad_norm(at::full({1}, 1.8e19, at::kFloat)), 1.8e19, 1e13);
}

TEST(GradNorm, RefusesWhatHasNoNorm) {
  EXPECT_THROW(grad_norm(at::TensorList()), c10::Error);
  EXPECT_THROW(grad_norm({at::ones({2}), at::ones({2}, at::kLong)}), c10::Error);
}

TEST(AllFinite, SeesOneBadValueInAnyPiece) {
  at::Tensor x = at::zeros({(int64_t{1} << 21) + 5});
  EXPECT_TRUE(all_finite(x));
  x[-1] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(all_finite(x));
  x[-1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(all_finite(x));
}

}  // namespace
}  // namespace trine
