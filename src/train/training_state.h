// Everything that a step's result depends on, as a checkpoint: weights, moments, step, data order, schedule.
//
// There is no generator state to keep: whatever is random is a function of the seed and a position (base/random.h).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/saver.h"
#include "checkpoint/store.h"
#include "config/config.h"
#include "data/loader.h"
#include "model/segments.h"
#include "optim/adamw_optimizer.h"
#include "optim/lr_schedule.h"

namespace trine {

struct TrainingState {
  const Config& config;
  Model& model;
  AdamWOptimizer& optimizer;
  DataLoader& loader;
  const LrSchedule& schedule;
};

// Hands a snapshot after `step` updates to the saver.
void save_training_state(CheckpointSaver& saver, int64_t step, const TrainingState& state);

// Puts a checkpoint back; returns its step. Throws UserError if the model or the stored types differ; warns of a changed schedule,
// optimiser setting, seed, or library version.
int64_t restore_training_state(const CheckpointReader& checkpoint, const TrainingState& state);

// The names and shapes of all parameters, in tree order.
std::vector<CheckpointParameter> checkpoint_parameters(Model& model);

}  // namespace trine
