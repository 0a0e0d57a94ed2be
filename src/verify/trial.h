// `trine trial`: the proof that a team wants before a long run, as numbered stages that each say what they do not prove.
//
// Everything is tried with the very code of a run: stage 3 loads and exports, stage 5 trains, stages 6 and 7 read what that training
// left. A stage that cannot be done is skipped and says why.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "config/config.h"

namespace trine {

struct TrialStage {
  enum class Status { kPassed, kFailed, kSkipped };

  int number = 0;
  std::string name;
  Status status = Status::kPassed;
  std::string reason;                                       // why it failed or was skipped
  std::vector<std::pair<std::string, std::string>> figures;  // in the order to be read
  std::string does_not_prove;

  void figure(std::string figure_name, std::string value) { figures.emplace_back(std::move(figure_name), std::move(value)); }
  void fail(std::string why);  // keeps every reason
};

struct TrialOptions {
  std::filesystem::path folder;  // where the trial's runs, export and report go; emptied first
  int64_t num_steps = 8;         // of the trial training; half of them are repeated from a checkpoint
};

// Runs all stages in order; a failed stage does not stop the later ones, unless they need what it should have made. Throws UserError
// if the recipe has no [expect] to compare with.
std::vector<TrialStage> run_trial(const Config& config, const TrialOptions& options);

std::string trial_text(const std::vector<TrialStage>& stages);
Json trial_json(const std::vector<TrialStage>& stages);

}  // namespace trine
