#include "verify/trial.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/files.h"
#include "base/format.h"
#include "base/log.h"
#include "verify/trial_stages.h"

namespace trine {
namespace {

namespace fs = std::filesystem;

const char* status_word(TrialStage::Status status) {
  switch (status) {
    case TrialStage::Status::kPassed: return "passed";
    case TrialStage::Status::kFailed: return "FAILED";
    case TrialStage::Status::kSkipped: return "skipped";
  }
  return "";
}

bool says_nothing(const ExpectConfig& expect) {
  return !expect.num_layers && !expect.parameters && !expect.global_batch_size && !expect.first_loss && !expect.random_loss &&
         !expect.rope_theta && !expect.ranks && !expect.num_experts;
}

// Makes an empty folder. One that holds anything else than an earlier trial is refused.
void empty_trial_folder(const fs::path& folder) {
  const fs::path marker = folder / ".trial";
  if (fs::exists(folder) && !(fs::is_directory(folder) && (fs::is_empty(folder) || fs::exists(marker)))) {
    throw UserError("{} holds something else than an earlier trial, and a trial empties its folder. Choose another --folder.", folder.string());
  }
  fs::remove_all(folder);
  create_folders(folder);
  write_file_atomically(marker, "");
}

// Runs one stage; what it throws is its failure.
template <class Stage>
TrialStage attempt(int number, const char* name, const char* does_not_prove, const Stage& stage) {
  TrialStage result{.number = number, .name = name, .status = TrialStage::Status::kPassed, .reason = "", .figures = {},
                    .does_not_prove = does_not_prove};
  log::info("trial stage {}: {}", number, name);
  try {
    stage(result);
  } catch (const std::exception& e) {
    result.fail(e.what());
  }
  return result;
}

TrialStage skipped(int number, const char* name, const char* does_not_prove, const char* why) {
  return {.number = number, .name = name, .status = TrialStage::Status::kSkipped, .reason = why, .figures = {}, .does_not_prove = does_not_prove};
}

}  // namespace

void TrialStage::fail(std::string why) {
  status = Status::kFailed;
  reason += (reason.empty() ? "" : "; ") + std::move(why);
}

std::vector<TrialStage> run_trial(const Config& config, const TrialOptions& options) {
  if (says_nothing(config.expect)) {
    throw UserError("trial compares what will run with what you expect, and the recipe has no [expect]. State there at least "
                    "num_layers or parameters, and first_loss or random_loss.");
  }
  constexpr int64_t kLeastSteps = 4;  // the first, one of warm-up, and two to repeat
  if (options.num_steps < kLeastSteps) throw UserError("a trial needs at least {} steps, {} were asked for", kLeastSteps, options.num_steps);
  empty_trial_folder(options.folder);

  std::vector<TrialStage> stages;
  stages.push_back(attempt(1, "versions and machine", "that other versions or another machine behave the same",
                           [&](TrialStage& stage) { examine_versions(options, stage); }));
  stages.push_back(attempt(2, "model, ranks and layout", "that the weights are those of this model",
                           [&](TrialStage& stage) { check_model(config, stage); }));
  stages.push_back(attempt(3, "weights in and out", "anything about quality: a low first loss tells loaded weights from random ones, no more",
                           [&](TrialStage& stage) { check_weights(config, options, stage); }));
  stages.push_back(skipped(4, "kernels against their reference", "", "this version has the reference kernels only, and nothing to compare"));
  stages.push_back(attempt(5, "warm-up and sustained speed", "the speed of a longer run, of other lengths of rows, or of a shared machine at another hour",
                           [&](TrialStage& stage) { measure_speed(config, options, stage); }));
  const bool trained = stages.back().status == TrialStage::Status::kPassed;
  const char* const no_run = "stage 5 left no run to look at";
  const char* const few_steps = "convergence: these are a few steps on a part of the data";
  const char* const one_layout = "resuming on other layouts or versions, or a disk that fails";
  if (!trained) {
    stages.push_back(skipped(6, "evaluation on held-out data", few_steps, no_run));
    stages.push_back(skipped(7, "checkpoint and resume", one_layout, no_run));
  } else {
    if (config.validation.enable) {
      stages.push_back(attempt(6, "evaluation on held-out data", few_steps, [&](TrialStage& stage) { compare_validation(options, stage); }));
    } else {
      stages.push_back(skipped(6, "evaluation on held-out data", few_steps, "validation.enable is false: no held-out data was named"));
    }
    stages.push_back(attempt(7, "checkpoint and resume", one_layout, [&](TrialStage& stage) { check_resume(config, options, stage); }));
  }
  write_file_atomically(options.folder / "trial.json", trial_json(stages).dump(2) + "\n");
  write_file_atomically(options.folder / "trial.txt", trial_text(stages));
  return stages;
}

std::string trial_text(const std::vector<TrialStage>& stages) {
  std::string text;
  for (const TrialStage& stage : stages) {
    text += fmt::format("{}. {}: {}{}\n", stage.number, stage.name, status_word(stage.status), stage.reason.empty() ? "" : " (" + stage.reason + ")");
    for (const auto& [name, value] : stage.figures) text += fmt::format("     {:<34} {}\n", name, value);
    if (!stage.does_not_prove.empty()) text += fmt::format("     does not prove: {}\n", stage.does_not_prove);
  }
  return text;
}

Json trial_json(const std::vector<TrialStage>& stages) {
  Json list = Json::array();
  for (const TrialStage& stage : stages) {
    Json figures = Json::array();
    for (const auto& [name, value] : stage.figures) figures.push_back({{"name", name}, {"value", value}});
    const char* const status = stage.status == TrialStage::Status::kFailed ? "failed" : status_word(stage.status);
    list.push_back({{"stage", stage.number}, {"name", stage.name}, {"status", status}, {"reason", stage.reason}, {"figures", figures},
                    {"does_not_prove", stage.does_not_prove}});
  }
  return {{"version", 1}, {"stages", list}};
}

}  // namespace trine
