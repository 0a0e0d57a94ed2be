#include "ops/grad_norm.h"

#include "ops/grad_norm_cpu.h"
#include "tests/ops/gradients.h"

namespace trine {
namespace {

TEST(SumOfSquares, OfAnyDtypeIsThatOfFloat64AcrossPieces) {
  const int64_t more_than_a_piece = (int64_t{1} << 21) + 5;
  const at::Tensor x = at::linspace(-1, 1, more_than_a_piece, at::kDouble);
  for (at::ScalarType dtype : {at::kDouble, at::kFloat, at::kBFloat16}) {
    const at::Tensor rounded = x.to(dtype);
    const double expected = rounded.to(at::kDouble).square().sum().item<double>();
    EXPECT_NEAR(sum_of_squares(rounded) / expected, 1, dtype == at::kDouble ? 1e-12 : 1e-7);
  }
}

TEST(SumOfSquares, EveryInstructionSetAndNumberOfThreadsGivesTheSameBits) {
  const at::Tensor x = random_tensor({(int64_t{1} << 20) + 4099}, 1, at::kFloat);
  for (InstructionSet set : {InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    if (set > instruction_set()) continue;
    EXPECT_EQ(sum_of_squares_cpu(x.data_ptr<float>(), x.numel(), set),
              sum_of_squares_cpu(x.data_ptr<float>(), x.numel(), InstructionSet::kPortable));
  }
  const double sum = sum_of_squares(x);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  EXPECT_EQ(sum_of_squares(x), sum);
  at::set_num_threads(threads);
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
