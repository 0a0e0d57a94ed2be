#include "train/profile.h"

#include <torch/csrc/autograd/profiler_kineto.h>
#include <torch/torch.h>

#include <algorithm>

#include "base/log.h"

namespace trine {

using namespace torch::autograd::profiler;
namespace tp = torch::profiler::impl;

StepProfile::StepProfile(const ProfilingConfig& config, int64_t step, const std::filesystem::path& run_folder) {
  if (std::find(config.steps.begin(), config.steps.end(), step) == config.steps.end()) return;
  file_ = run_folder / fmt::format("trace-step-{}.json", step);
  const tp::ProfilerConfig settings(tp::ProfilerState::KINETO, /*report_input_shapes=*/true);
  const std::set<ActivityType> activities = {ActivityType::CPU};
  prepareProfiler(settings, activities);
  enableProfiler(settings, activities, {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION});
}

StepProfile::~StepProfile() {
  if (file_.empty()) return;
  try {
    disableProfiler()->save(file_.string());
    log::info("profile of the step: {}", file_.string());
  } catch (const std::exception& e) {
    log::warning("the profile {} could not be written: {}", file_.string(), e.what());
  }
}

}  // namespace trine
