// The start of a run: which model, which weights, which dtypes, said in the log before anything is trained.
#pragma once

#include <memory>

#include "config/config.h"
#include "data/loader.h"
#include "model/segments.h"
#include "text/tokenizer.h"

namespace trine {

// Rows and micro-batches of a step on one rank.
struct BatchPlan {
  int64_t rows_per_step = 0;
  int64_t rows_per_micro_batch = 0;
  int64_t num_micro_batches() const { return rows_per_step / rows_per_micro_batch; }
};
BatchPlan plan_batches(const TrainingConfig& training);

// Throws UserError if the ids and labels of one step alone would not fit into this machine's memory.
void check_step_fits(const BatchPlan& plan, int64_t seq_len);

// Master and compute types as the options say; gradients are fp32, but for pure bf16 with one micro-batch, where nothing is added up.
UnitDtypes choose_dtypes(const TrainingConfig& training, const BatchPlan& plan);

// Throws UserError if the tokenizer has ids that the embedding has no row for.
void check_vocabulary(const Tokenizer& tokenizer, const ModelArgs& args);

// The rows that the recipe trains on, from the first.
std::unique_ptr<DataLoader> open_training_data(const Config& config, const Tokenizer& tokenizer, const ModelArgs& args);

// Says what will be trained and how.
void log_run(const Config& config, const ModelArgs& args, const BatchPlan& plan, const DataLoader& loader);

// Fills the model from checkpoint.initial_load_path, or randomly, and says which. Returns true for a random start.
bool load_initial_weights(const Config& config, Model& model);

// Every parameter's master values under its name, for exports.
std::vector<std::pair<std::string, at::Tensor>> named_masters(Model& model);

}  // namespace trine
