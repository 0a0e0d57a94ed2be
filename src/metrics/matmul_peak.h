// Measures the matrix product peak of this machine's CPU. Apart from the rest of metrics because it needs torch (library trine_peak).
#pragma once

#include <ATen/ATen.h>

#include "metrics/peaks.h"

namespace trine {

// FLOP/s of at::mm with the present number of threads: best of several products of the sizes that fit the machine, after a warm-up.
// Takes about half a second, some seconds on a busy machine. Undisturbed if all threads ran throughout the best product.
PeakMeasurement measure_matmul_peak(at::ScalarType dtype);

// This machine's CPU peak for `dtype`, measured once and cached per CPU, threads, torch version and dtype.
Peak cpu_matmul_peak(at::ScalarType dtype);

}  // namespace trine
