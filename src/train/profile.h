// A trace of chosen steps (profiling.steps), for chrome://tracing or Perfetto.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "config/config.h"

namespace trine {

// While one lives, operator calls of the step are recorded if the step was chosen; at the end `trace-step-N.json` is in the run folder.
class StepProfile {
 public:
  StepProfile(const ProfilingConfig& config, int64_t step, const std::filesystem::path& run_folder);
  ~StepProfile();
  StepProfile(const StepProfile&) = delete;

 private:
  std::filesystem::path file_;  // empty: not recorded
};

}  // namespace trine
