// What a device can do at best, as the denominator of MFU: published figures of known accelerators, and for CPUs a measured one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace trine {

struct Peak {
  double flops = 0;    // FLOP/s of dense matrix products; 0: unknown
  std::string source{};  // where the figure is from, for the log
};

// The published dense 16-bit peak of one accelerator by the name its runtime gives ("NVIDIA H100 80GB HBM3", "trn2"). For Trainium it
// is that of one logical core of `cores_per_logical_core` physical ones. `dtype` as torch says it ("bfloat16"). An unknown device, or
// another dtype, has no figure: never that of another device.
Peak known_peak(std::string_view device_name, std::string_view dtype, int64_t cores_per_logical_core = 2);

// What a measurement depends on.
struct CpuPeakKey {
  std::string cpu;            // cpu_name()
  int64_t num_threads = 1;
  std::string torch_version;
  std::string dtype;          // float32 | bfloat16
};

struct PeakMeasurement {
  double flops = 0;         // FLOP/s
  bool undisturbed = true;  // false: other work took the processors meanwhile, so the figure is too low
};

// The CPU's matrix product peak: from the cache, or by `measure` (takes about a second). An undisturbed measurement is cached; another
// serves this process with a warning. `cache_file` empty: not cached.
Peak cpu_peak(const CpuPeakKey& key, const std::function<PeakMeasurement()>& measure, const std::filesystem::path& cache_file);

// $XDG_CACHE_HOME/trine/matmul_peaks.json, else ~/.cache/trine/matmul_peaks.json; empty without a home.
std::filesystem::path peak_cache_file();

// The processor's model name, "unknown CPU" if the system does not say.
std::string cpu_name();

}  // namespace trine
