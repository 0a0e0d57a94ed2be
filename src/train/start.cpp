#include "train/start.h"

#include <filesystem>

#include "base/errors.h"
#include "base/format.h"
#include "base/log.h"
#include "metrics/memory.h"
#include "checkpoint/weight_source.h"
#include "train/loaded_model.h"

namespace trine {
namespace {

namespace fs = std::filesystem;

bool holds_weights(const fs::path& folder) {
  return fs::exists(folder / "model.safetensors") || fs::exists(folder / "model.safetensors.index.json");
}

}  // namespace

BatchPlan plan_batches(const TrainingConfig& training) {
  const int64_t rows = training.global_batch_size == -1 ? training.local_batch_size : training.global_batch_size;
  return {.rows_per_step = rows, .rows_per_micro_batch = training.local_batch_size};
}

void check_step_fits(const BatchPlan& plan, int64_t seq_len) {
  constexpr double kBytesPerToken = 3 * 4 + 3 * 8;  // ids, labels and positions, as read and as tensors
  const double bytes = static_cast<double>(plan.rows_per_step) * static_cast<double>(seq_len) * kBytesPerToken;
  const uint64_t memory = memory_capacity_bytes();
  if (memory > 0 && bytes > static_cast<double>(memory)) {
    throw UserError("a step of {} rows of {} tokens needs {:.0f} GiB for its token ids alone, and there are {}. Lower "
                    "training.global_batch_size, training.local_batch_size or training.seq_len.",
                    with_commas(plan.rows_per_step), with_commas(seq_len), bytes / (1 << 30), in_bytes(memory));
  }
}

UnitDtypes choose_dtypes(const TrainingConfig& training, const BatchPlan& plan) {
  const auto type = [](const std::string& name) { return name == "bfloat16" ? at::kBFloat16 : at::kFloat; };
  UnitDtypes dtypes{.master = type(training.dtype), .compute = type(training.mixed_precision_param), .gradient = at::kFloat};
  if (dtypes.master == at::kBFloat16 && dtypes.compute == at::kBFloat16 && plan.num_micro_batches() == 1) {
    dtypes.gradient = at::kBFloat16;
  }
  return dtypes;
}

void check_vocabulary(const Tokenizer& tokenizer, const ModelArgs& args) {
  if (tokenizer.vocab_size() > args.vocab_size) {
    throw UserError("the tokenizer has ids up to {}, but the model's embedding has {} rows (vocab_size). Use the tokenizer of this "
                    "model, or set --model.vocab_size for a random start.", tokenizer.vocab_size() - 1, args.vocab_size);
  }
}

std::unique_ptr<DataLoader> open_training_data(const Config& config, const Tokenizer& tokenizer, const ModelArgs& args) {
  return make_loader(config.dataloader, config.training.seq_len, static_cast<uint64_t>(config.debug.seed), tokenizer, args.vocab_size,
                     config.model.hf_assets_path);
}

void log_run(const Config& config, const ModelArgs& args, const BatchPlan& plan, const DataLoader& loader) {
  for (const std::string& line : split_lines(describe_model(args))) log::info("{}", line);
  const TrainingConfig& training = config.training;
  const UnitDtypes dtypes = choose_dtypes(training, plan);
  log::info("step: {} rows of {} tokens = {} tokens, in {} micro-batch{} of {} row{}; 1 rank; {} steps", plan.rows_per_step,
            training.seq_len, with_commas(plan.rows_per_step * training.seq_len), plan.num_micro_batches(),
            plan.num_micro_batches() == 1 ? "" : "es", plan.rows_per_micro_batch, plan.rows_per_micro_batch == 1 ? "" : "s",
            with_commas(training.steps));
  log::info("kernels: {}; dtypes: master {}, compute {}, gradients {}, optimiser state {}; activation checkpointing: {}",
            config.model.kernels, training.dtype, training.mixed_precision_param,
            dtypes.gradient == at::kBFloat16 ? "bfloat16" : "float32", config.optimizer.state_dtype, config.activation_checkpoint.mode);
  if (config.optimizer.stochastic_rounding) {
    log::info("bfloat16 master weights are rounded up or down at random (optimizer.stochastic_rounding)");
  } else if (training.dtype == "bfloat16") {
    log::warning("pure bfloat16 training: updates smaller than 1/256 of a weight round away, and the loss may stop falling early. "
                 "optimizer.stochastic_rounding keeps them in the mean.");
  }
  const ModelCounts counts = count(args);
  log::info("FLOPs per token: {:.4g} (attention not halved for causality; halved: {:.4g})", counts.flops_per_token(training.seq_len),
            counts.flops_per_token_causal(training.seq_len));
  for (const std::string& line : split_lines(loader.summary())) log::info("data: {}", line);
}

bool load_initial_weights(const Config& config, Model& model) {
  if (!config.checkpoint.initial_load_path.empty()) {
    load_parameters(model, *open_weights(config.checkpoint.initial_load_path));
    return false;
  }
  const std::string& assets = config.model.hf_assets_path;
  if (!assets.empty() && holds_weights(assets)) {
    log::warning("weights lie in {} but are not loaded, since nothing asks for them. To start from them: --checkpoint.initial_load_path {}",
                 assets, assets);
  }
  initialize_randomly(model, static_cast<uint64_t>(config.debug.seed));
  return true;
}

std::vector<std::pair<std::string, at::Tensor>> named_masters(Model& model) {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (const Parameter* parameter : model.parameters()) tensors.emplace_back(parameter->name, parameter->master);
  return tensors;
}

}  // namespace trine
