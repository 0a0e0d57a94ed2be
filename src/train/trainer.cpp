#include "train/trainer.h"

#include <chrono>
#include <cmath>
#include <optional>

#include "base/errors.h"
#include "base/format.h"
#include "base/log.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/export_hf.h"
#include "checkpoint/saver.h"
#include "data/loader.h"
#include "metrics/matmul_peak.h"
#include "metrics/memory.h"
#include "metrics/meter.h"
#include "model/segments.h"
#include "optim/adamw_optimizer.h"
#include "optim/clipping.h"
#include "optim/lr_schedule.h"
#include "text/tokenizer.h"
#include "train/batch_tensors.h"
#include "train/caching_allocator.h"
#include "train/evaluate.h"
#include "train/expectations.h"
#include "train/final_export.h"
#include "train/profile.h"
#include "train/run_folder.h"
#include "train/signals.h"
#include "train/start.h"
#include "train/step.h"
#include "train/training_state.h"

namespace trine {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

LrScheduleOptions schedule_options(const Config& config) {
  return {.lr = config.optimizer.lr,
          .num_steps = config.training.steps,
          .warmup_steps = config.lr_scheduler.warmup_steps,
          .decay_ratio = config.lr_scheduler.decay_ratio,
          .decay = lr_decay_from_name(config.lr_scheduler.decay_type),
          .min_lr_factor = config.lr_scheduler.min_lr_factor};
}

class Trainer {
 public:
  explicit Trainer(const Config& config, const ModelArgs& args);
  int run();

 private:
  enum class Outcome { kUpdated, kSkipped, kEndOfData };

  void resume_or_start();
  Outcome step();
  void validate();
  void save();
  std::optional<std::string> reason_to_stop() const;
  void finish(bool trained);
  MeterOptions meter_options() const;
  TrainingState state() { return {config_, model_, optimizer_, *loader_, schedule_}; }

  const Clock::time_point begin_ = Clock::now();
  const Config config_;
  const BatchPlan plan_;
  RunFolder folder_;
  SignalWatch signals_;
  Tokenizer tokenizer_;
  std::unique_ptr<DataLoader> loader_, validation_;
  Model model_;
  AdamWOptimizer optimizer_;
  LrSchedule schedule_;
  Executor executor_;
  std::optional<CheckpointSaver> saver_;
  ProcessMemory memory_;
  std::unique_ptr<Meter> meter_;
  int64_t step_ = 0;        // updates done
  int64_t saved_step_ = -1;
  bool random_start_ = false, fresh_ = true;
  int64_t num_skipped_ = 0;  // in a row
  double last_step_seconds_ = 0, last_save_seconds_ = 0;
};

Trainer::Trainer(const Config& config, const ModelArgs& args)
    : config_(config),
      plan_(plan_batches(config.training)),
      folder_(config.job.dump_folder),
      tokenizer_(Tokenizer::from_folder(config.model.hf_assets_path)),
      model_(args, build_spec(args), choose_dtypes(config.training, plan_)),
      optimizer_(model_, config.optimizer, static_cast<uint64_t>(config.debug.seed)),
      schedule_(schedule_options(config)),
      executor_(model_, config.activation_checkpoint) {
  check_vocabulary(tokenizer_, args);
  loader_ = open_training_data(config, tokenizer_, args);
  if (config.validation.enable) {
    validation_ = make_validation_loader(config.validation, config.dataloader, config.training.seq_len, tokenizer_, args.vocab_size,
                                         config.model.hf_assets_path);
  }
  log_run(config_, args, plan_, *loader_);
}

void Trainer::resume_or_start() {
  const auto newest = open_newest_checkpoint(folder_.checkpoints());
  if (newest && !config_.checkpoint.enable) {
    throw UserError("{} holds a checkpoint (step {}), but checkpoint.enable is false, so it would neither be resumed nor kept up. Set "
                    "--checkpoint.enable, or choose another --job.dump_folder.", folder_.path().string(), newest->step());
  }
  if (config_.checkpoint.enable) {
    saver_.emplace(SaverOptions{.folder = folder_.checkpoints(),
                                .keep_latest_k = config_.checkpoint.keep_latest_k,
                                .mirror_path = config_.checkpoint.mirror_path,
                                .background = config_.checkpoint.async_mode != "disabled"});
  } else {
    log::warning("checkpoint.enable is false: nothing of this run is saved");
  }
  folder_.keep_config(config_);
  if (newest) {
    step_ = saved_step_ = restore_training_state(*newest, state());
    fresh_ = false;
    log::info("resumed from {} at step {}", newest->folder().string(), step_);
  } else {
    random_start_ = load_initial_weights(config_, model_);
  }
  meter_ = std::make_unique<Meter>(meter_options());
}

MeterOptions Trainer::meter_options() const {
  const at::ScalarType compute = config_.training.mixed_precision_param == "bfloat16" ? at::kBFloat16 : at::kFloat;
  const Peak peak = cpu_matmul_peak(compute);
  log::info("peak for MFU: {:.1f} GFLOP/s {} ({}); memory: {}", peak.flops / 1e9, config_.training.mixed_precision_param, peak.source,
            memory_.method());
  return {.run_folder = folder_.path(),
          .resumed_step = step_,
          .num_steps = config_.training.steps,
          .log_freq = config_.metrics.log_freq,
          .warmup_steps = config_.metrics.warmup_steps,
          .tensorboard = config_.metrics.enable_tensorboard,
          .speed = {.num_ranks = 1,
                    .flops_per_token = count(model_.args()).flops_per_token(config_.training.seq_len),
                    .peak_flops = peak.flops}};
}

int Trainer::run() {
  resume_or_start();
  std::optional<std::string> stop;
  const int64_t first_step = step_;
  if (fresh_ && validation_) validate();
  while (step_ < config_.training.steps && !stop) {
    switch (step()) {
      case Outcome::kUpdated: break;
      case Outcome::kSkipped: stop = reason_to_stop(); continue;
      case Outcome::kEndOfData: stop = "the data has ended"; continue;
    }
    const bool last = step_ == config_.training.steps;
    if (validation_ && (last || step_ % config_.validation.interval == 0)) validate();
    if (saver_ && !last && config_.checkpoint.interval > 0 && step_ % config_.checkpoint.interval == 0) save();
    if (!last) stop = reason_to_stop();
  }
  if (stop) log::info("stopping after step {}: {}", step_, *stop);
  finish(step_ > first_step);
  const int signal = signals_.received();
  return signal != 0 && step_ < config_.training.steps ? 128 + signal : 0;
}

// One update, in the order in which it happens.
Trainer::Outcome Trainer::step() {
  const Clock::time_point begin = Clock::now();
  const double waited_before = loader_->wait_seconds();
  const int64_t step = step_ + 1;
  const StepProfile profile(config_.profiling, step, folder_.path());

  // 1. the step's rows, all of them before any work: the loss is divided by their count of valid tokens
  const std::optional<Batch> batch = loader_->next(plan_.rows_per_step);
  if (!batch) return Outcome::kEndOfData;
  if (batch->num_valid == 0) {
    constexpr int64_t kMostSkipped = 1000;
    log::warning("step {}: none of its {} rows has a token to learn from; no update is made", step, batch->num_rows);
    if (++num_skipped_ >= kMostSkipped) throw UserError("{} batches in a row without a token to learn from: check the data", num_skipped_);
    return Outcome::kSkipped;
  }
  num_skipped_ = 0;
  std::vector<BatchInputs> micro_batches;
  for (int64_t row = 0; row < batch->num_rows; row += plan_.rows_per_micro_batch) {
    const Batch rows = take_rows(*batch, row, std::min(row + plan_.rows_per_micro_batch, batch->num_rows));
    micro_batches.push_back(to_inputs(rows, 1.0 / static_cast<double>(batch->num_valid)));
  }

  // 2. forward and backward of every micro-batch
  const double loss = executor_.forward_backward(micro_batches);
  memory_.sample();

  // 3. the norm before clipping, and a check before anything is changed
  const double grad_norm = optimizer_.gradient_norm();
  if (!std::isfinite(loss) || !std::isfinite(grad_norm)) {
    const std::string parameter = optimizer_.first_non_finite_gradient();
    throw RunStopped("step {}: the loss is {} and the gradient norm {}; {}. Stopped before the update; {}.", step, loss, grad_norm,
                     parameter.empty() ? "every gradient is finite" : "the first non-finite gradient is that of " + parameter,
                     saved_step_ >= 0 ? fmt::format("checkpoint step-{} is the last good one", saved_step_) : "no checkpoint was written");
  }
  if (fresh_ && step == 1) check_expected_loss(config_.expect, loss, random_start_);

  // 4. clip, decay, update
  const double lr = schedule_.lr(step);
  optimizer_.step(step, lr, clip_factor(grad_norm, config_.training.max_norm));
  step_ = step;

  last_step_seconds_ = seconds_since(begin);
  meter_->record(StepRecord{.step = step,
                            .loss = loss,
                            .grad_norm = grad_norm,
                            .lr = lr,
                            .tokens = batch->num_tokens,
                            .valid_tokens = batch->num_valid,
                            .seconds = last_step_seconds_,
                            .data_seconds = loader_->wait_seconds() - waited_before,
                            .memory = memory_.take()});
  return Outcome::kUpdated;
}

void Trainer::validate() {
  const Clock::time_point begin = Clock::now();
  validation_->rewind();
  const EvaluationResult result = evaluate(model_, *validation_, config_.training.local_batch_size, config_.validation.steps);
  meter_->record(ValidationRecord{.step = step_,
                                  .loss = result.loss,
                                  .tokens = result.num_tokens,
                                  .valid_tokens = result.num_valid,
                                  .seconds = seconds_since(begin),
                                  .memory = memory_.take()});
}

void Trainer::save() {
  const Clock::time_point begin = Clock::now();
  save_training_state(*saver_, step_, state());
  saved_step_ = step_;
  last_save_seconds_ = seconds_since(begin);
}

std::optional<std::string> Trainer::reason_to_stop() const {
  if (const int number = signals_.received()) return signal_name(number) + " was received";
  const double limit = config_.training.time_limit;
  // Room for one more step, a save and as long again for the export.
  const double needed = last_step_seconds_ + 2 * last_save_seconds_;
  if (limit > 0 && seconds_since(begin_) + needed > limit) return fmt::format("training.time_limit of {} s is near", limit);
  return std::nullopt;
}

void Trainer::finish(bool trained) {
  if (saver_) {
    if (trained && saved_step_ != step_) save();
    saver_->wait();
  }
  meter_->finish();
  if (config_.checkpoint.last_save_in_hf) {
    export_run(config_, model_.args(), TensorWeights(named_masters(model_)), config_.checkpoint.export_dtype, folder_.exported());
  }
}

}  // namespace

int train(const Config& config) {
  const ModelArgs args = resolve_model_args(config, !config.checkpoint.initial_load_path.empty());
  check_expected_sizes(config.expect, args, /*num_ranks=*/1, plan_batches(config.training).rows_per_step);
  check_step_fits(plan_batches(config.training), config.training.seq_len);
  use_caching_allocator();
  if (config.debug.deterministic) at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  return Trainer(config, args).run();
}

}  // namespace trine
