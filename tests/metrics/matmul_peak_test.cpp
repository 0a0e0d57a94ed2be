#include "metrics/matmul_peak.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

namespace trine {
namespace {

// A peak bounds what any single product reaches. Half of it is granted to a machine whose clock changes.
TEST(MatmulPeak, IsNotBelowWhatALaterProductReaches) {
  const PeakMeasurement peak = measure_matmul_peak(at::kFloat);
  EXPECT_GT(peak.flops, 1e8);
  EXPECT_LT(peak.flops, 1e16) << "not the speed of any CPU";
  if (!peak.undisturbed) GTEST_SKIP() << "other work uses the processors";
  const at::Tensor a = at::randn({768, 768}), b = at::randn({768, 768});
  double best = 0;
  for (int repeat = 0; repeat < 5; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    at::mm(a, b);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::max(best, 2.0 * 768 * 768 * 768 / seconds);
  }
  EXPECT_GT(peak.flops, 0.5 * best);
}

}  // namespace
}  // namespace trine
