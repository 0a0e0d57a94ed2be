// The stages of a trial that one rank can do. Each fills in its figures and fails the stage with a reason where something is wrong.
#pragma once

#include "verify/trial.h"

namespace trine {

void examine_versions(const TrialOptions& options, TrialStage& stage);
void check_model(const Config& config, TrialStage& stage);
void check_weights(const Config& config, const TrialOptions& options, TrialStage& stage);
void measure_speed(const Config& config, const TrialOptions& options, TrialStage& stage);  // trains; stages 6 and 7 read its run
void compare_validation(const TrialOptions& options, TrialStage& stage);
void check_resume(const Config& config, const TrialOptions& options, TrialStage& stage);

}  // namespace trine
