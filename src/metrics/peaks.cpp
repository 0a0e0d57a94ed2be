#include "metrics/peaks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/errors.h"
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"

namespace trine {
namespace {

namespace fs = std::filesystem;

struct KnownDevice {
  std::vector<std::string_view> words;  // all of them occur in the name the runtime gives
  double flops;                         // dense, 16 bit
};

// The makers' data sheets, without sparsity. The first row that fits counts, so variants stand before the plain name.
const std::vector<KnownDevice> kGpus = {
    {{"h100", "nvl"}, 835e12}, {{"h100", "pcie"}, 756e12}, {{"h100", "hbm3"}, 989e12}, {{"h200", "nvl"}, 835e12},
    {{"h200"}, 989e12},        {{"a100"}, 312e12},         {{"gb200"}, 2.5e15},        {{"b200"}, 2.25e15},
};

// Trainium 2 and 3 under the names of the Neuron runtime: one physical core's tensor engine, 128·128·2 at 2.4 GHz.
const std::vector<std::string_view> kTrainiums = {"trn2", "trn2n", "trn2u", "trn3", "trn3u"};
constexpr double kTrainiumCoreFlops = 79e12;

// "NVIDIA A100-SXM4-80GB" -> nvidia a100 sxm4 80gb
std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> words(1);
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c))) {
      words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  return words;
}

constexpr int64_t kCacheVersion = 1;

OrderedJson read_cache(const fs::path& file) {
  if (file.empty() || !fs::exists(file)) return OrderedJson::object();
  try {
    const Json cache = read_json_file(file);
    if (cache.at("version") == kCacheVersion && cache.at("peaks").is_object()) return cache.at("peaks");
    log::warning("{} is of another version of Trine; measuring again", file.string());
  } catch (const std::exception& error) {
    log::warning("the cached peaks cannot be used ({}); measuring again", error.what());
  }
  return OrderedJson::object();
}

}  // namespace

Peak known_peak(std::string_view device_name, std::string_view dtype, int64_t cores_per_logical_core) {
  const Peak unknown{.source = fmt::format("no figure for device \"{}\" with {}", device_name, dtype)};
  if (dtype != "bfloat16" && dtype != "float16") return unknown;
  const std::vector<std::string> words = words_of(device_name);
  const auto has = [&words](std::string_view word) { return std::ranges::find(words, word) != words.end(); };
  if (has("mig")) return unknown;  // a slice of a device, of whichever size
  for (const KnownDevice& device : kGpus) {
    if (std::ranges::all_of(device.words, has)) return {device.flops, fmt::format("data sheet of {}", device_name)};
  }
  if (std::ranges::any_of(kTrainiums, has)) {
    return {kTrainiumCoreFlops * static_cast<double>(cores_per_logical_core),
            fmt::format("data sheet of {}, {} physical cores to a logical core", device_name, cores_per_logical_core)};
  }
  return unknown;
}

Peak cpu_peak(const CpuPeakKey& key, const std::function<PeakMeasurement()>& measure, const fs::path& cache_file) {
  const std::string name = fmt::format("{}, {} threads, torch {}, {}", key.cpu, key.num_threads, key.torch_version, key.dtype);
  OrderedJson peaks = read_cache(cache_file);
  if (const auto found = peaks.find(name); found != peaks.end() && found->is_number() && found->get<double>() > 0) {
    return {*found, fmt::format("measured before on {}; delete {} to measure again", name, cache_file.string())};
  }
  const auto [flops, undisturbed] = measure();
  if (!undisturbed) {
    log::warning("the matrix product peak was measured while other work used the processors: {:.1f} GFLOP/s is too low, and MFU too high; "
                 "the next run measures again", flops / 1e9);
    return {flops, fmt::format("measured on {}, disturbed by other work", name)};
  }
  if (!cache_file.empty()) {
    peaks[name] = flops;
    try {
      create_folders(cache_file.parent_path());
      write_file_atomically(cache_file, OrderedJson{{"version", kCacheVersion}, {"peaks", peaks}}.dump(2) + "\n");
    } catch (const std::exception& error) {
      log::warning("the measured peak is not cached: {}", error.what());
    }
  }
  return {flops, "measured on " + name};
}

fs::path peak_cache_file() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const fs::path file = fs::path("trine") / "matmul_peaks.json";
  if (cache && *cache) return cache / file;
  if (home && *home) return home / (".cache" / file);
  return {};
}

std::string cpu_name() {
  std::ifstream lines("/proc/cpuinfo");
  std::string arm;
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    const std::string value = line.substr(colon + 2);
    if (line.starts_with("model name")) return value;
    // ARM cores have numbers instead of a name.
    if (line.starts_with("CPU implementer") && arm.empty()) arm = "ARM " + value;
    if (line.starts_with("CPU part")) return arm + " " + value;
  }
  return "unknown CPU";
}

}  // namespace trine
