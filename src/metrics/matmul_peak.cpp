#include "metrics/matmul_peak.h"

#include <ATen/Parallel.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <torch/version.h>

#include <algorithm>
#include <ctime>
#include <limits>

namespace trine {
namespace {

double clock_seconds(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

PeakMeasurement measure_matmul_peak(at::ScalarType dtype) {
  constexpr double kSecondsPerSize = 0.15, kSecondsPerSizeIfDisturbed = 0.6;
  constexpr double kLongestProduct = 0.2;  // larger products are not tried
  constexpr double kFullShare = 0.9;       // of the processors, for a product to count as undisturbed
  const double num_threads = at::get_num_threads();
  const c10::InferenceMode no_autograd;
  PeakMeasurement best{.flops = 0, .undisturbed = false};
  for (const int64_t n : {512, 1024, 2048, 4096, 8192}) {
    const at::Tensor a = at::randn({n, n}, at::kFloat).to(dtype);
    const at::Tensor b = at::randn({n, n}, at::kFloat).to(dtype);
    at::Tensor product = at::mm(a, b);  // warm-up: threads, kernels made for this shape, pages
    double fastest = std::numeric_limits<double>::infinity();
    const double start = clock_seconds(CLOCK_MONOTONIC);
    double spent = 0;
    do {
      const double begin = clock_seconds(CLOCK_MONOTONIC), processors_begin = clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
      at::mm_out(product, a, b);
      const double end = clock_seconds(CLOCK_MONOTONIC), processors_end = clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
      fastest = std::min(fastest, end - begin);
      const double flops = 2.0 * static_cast<double>(n * n * n) / (end - begin);
      if (flops > best.flops) best = {flops, processors_end - processors_begin >= kFullShare * num_threads * (end - begin)};
      spent = end - start;
    } while (spent < (best.undisturbed ? kSecondsPerSize : kSecondsPerSizeIfDisturbed));
    if (8 * fastest > kLongestProduct) break;
  }
  return best;
}

Peak cpu_matmul_peak(at::ScalarType dtype) {
  const CpuPeakKey key{.cpu = cpu_name(),
                       .num_threads = at::get_num_threads(),
                       .torch_version = TORCH_VERSION,
                       .dtype = dtype == at::kBFloat16 ? "bfloat16" : dtype == at::kFloat ? "float32" : c10::toString(dtype)};
  return cpu_peak(key, [dtype] { return measure_matmul_peak(dtype); }, peak_cache_file());
}

}  // namespace trine
