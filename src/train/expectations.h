// [expect]: what the user believes is being run, compared with what is about to run.
#pragma once

#include "config/config.h"
#include "model/model_args.h"

namespace trine {

// Sizes, before any weight is read. Throws CheckFailed listing every difference with both values.
void check_expected_sizes(const ExpectConfig& expect, const ModelArgs& args, int64_t num_ranks, int64_t global_batch_size);

// The first step's loss, before the first update. `random_start`: compared with expect.random_loss, else with expect.first_loss; nothing
// is checked if the one that applies is not set. Throws CheckFailed.
void check_expected_loss(const ExpectConfig& expect, double loss, bool random_start);

}  // namespace trine
