#include "verify/trial_stages.h"

#include <cmath>
#include <optional>

#include "base/errors.h"
#include "base/format.h"
#include "base/log.h"
#include "base/versions.h"
#include "checkpoint/export_hf.h"
#include "checkpoint/load_weights.h"
#include "data/loader.h"
#include "metrics/metrics_file.h"
#include "metrics/summary.h"
#include "model/named_size.h"
#include "model/segments.h"
#include "text/tokenizer.h"
#include "train/batch_tensors.h"
#include "train/expectations.h"
#include "train/start.h"
#include "train/trainer.h"
#include "verify/doctor.h"
#include "verify/losses.h"

namespace trine {
namespace {

namespace fs = std::filesystem;

ModelArgs model_of(const Config& config) { return resolve_model_args(config, !config.checkpoint.initial_load_path.empty()); }

// The configuration of the trial's own training: the recipe's, but short, and saved half-way.
Config short_run(const Config& config, const TrialOptions& options, const char* name) {
  Config run = config;
  run.job.dump_folder = (options.folder / name).string();
  run.training.steps = options.num_steps;
  run.training.time_limit = 0;
  run.checkpoint.enable = true;
  run.checkpoint.interval = options.num_steps / 2;
  run.checkpoint.keep_latest_k = 0;
  run.checkpoint.last_save_in_hf = false;
  run.checkpoint.mirror_path.clear();
  run.validation.interval = options.num_steps;
  run.metrics.log_freq = 1;
  run.metrics.warmup_steps = 1;
  run.expect = {};  // stages 2 and 3 compare these
  return run;
}

// The mean loss of the first step's rows.
double first_loss(const Config& config, Model& model, DataLoader& loader) {
  loader.rewind();
  const BatchPlan plan = plan_batches(config.training);
  const std::optional<Batch> batch = loader.next(plan.rows_per_step);
  if (!batch || batch->num_valid == 0) throw UserError("the first step has no token to learn from");
  double loss = 0;
  for (int64_t row = 0; row < batch->num_rows; row += plan.rows_per_micro_batch) {
    const Batch rows = take_rows(*batch, row, std::min(row + plan.rows_per_micro_batch, batch->num_rows));
    loss += model.loss(to_inputs(rows, 1.0 / static_cast<double>(batch->num_valid)));
  }
  return loss;
}

std::string stretch_words(const Stretch& stretch) {
  return fmt::format("{} step{}, median {}, {} tokens/s, {:.1f}% waiting for data", stretch.count, stretch.count == 1 ? "" : "s",
                     in_duration(stretch.median_seconds), with_commas(std::llround(stretch.tokens_per_second)), 100 * stretch.data_share);
}

}  // namespace

void examine_versions(const TrialOptions& options, TrialStage& stage) {
  for (const Finding& finding : examine_machine(options.folder)) {
    stage.figure(finding.name, finding.text);
    if (!finding.warning.empty() && finding.group == "versions") stage.fail(finding.warning);
    if (!finding.warning.empty() && finding.group != "versions") stage.figure(finding.name + ": warning", finding.warning);
  }
}

void check_model(const Config& config, TrialStage& stage) {
  const ModelArgs args = model_of(config);
  const BatchPlan plan = plan_batches(config.training);
  for (const std::string& line : split_lines(describe_model(args))) {
    const size_t colon = line.find(": ");
    stage.figure(line.substr(0, colon), line.substr(colon + 2));
  }
  stage.figure("ranks", "1");
  stage.figure("global batch", fmt::format("{} rows of {} tokens, {} tokens", plan.rows_per_step, config.training.seq_len,
                                           with_commas(plan.rows_per_step * config.training.seq_len)));
  const NamedSizes sizes{count(args).parameters, args.num_hidden_layers, args.num_experts};
  if (const std::string promised = size_that_does_not_fit(config.recipe.stem().string(), sizes); !promised.empty()) {
    stage.fail(fmt::format("the recipe's name says {}, but the model has {}", promised, size_in_words(args)));
  }
  check_expected_sizes(config.expect, args, /*num_ranks=*/1, plan.rows_per_step);
}

void check_weights(const Config& config, const TrialOptions& options, TrialStage& stage) {
  const ModelArgs args = model_of(config);
  // Forward passes only, so one copy in the compute type is enough, whatever the masters will be.
  const at::ScalarType dtype = config.training.mixed_precision_param == "bfloat16" ? at::kBFloat16 : at::kFloat;
  Model model(args, build_spec(args), {.master = dtype, .compute = dtype, .gradient = dtype});
  const Tokenizer tokenizer = Tokenizer::from_folder(config.model.hf_assets_path);
  const auto loader = open_training_data(config, tokenizer, args);

  const double tolerance = config.expect.first_loss_tolerance;
  model.initialize(static_cast<uint64_t>(config.debug.seed));
  const double random = first_loss(config, model, *loader), formula = random_loss(args);
  stage.figure("first loss, random start", fmt::format("{:.4f}", random));
  stage.figure("ln V + hidden*std^2/2", fmt::format("{:.4f}", formula));
  const double expected_random = config.expect.random_loss.value_or(formula);
  if (std::abs(random - expected_random) > tolerance) {
    stage.fail(fmt::format("the random start's loss {:.4f} is not within {} of {:.4f}", random, tolerance, expected_random));
  }

  double loss = random;
  if (config.checkpoint.initial_load_path.empty()) {
    stage.figure("weights", "none are loaded: the run starts at random");
  } else {
    load_initial_weights(config, model);
    loss = first_loss(config, model, *loader);
    stage.figure("weights from", config.checkpoint.initial_load_path);
    stage.figure("parameters filled", fmt::format("{}/{}", model.parameters().size(), model.parameters().size()));
    stage.figure("first loss, loaded weights", fmt::format("{:.4f}", loss));
    if (config.expect.first_loss && std::abs(loss - *config.expect.first_loss) > tolerance) {
      stage.fail(fmt::format("the first loss {:.4f} is not within {} of expect.first_loss = {}", loss, tolerance, *config.expect.first_loss));
    }
    if (!(loss < random)) stage.fail("the loaded weights are no better than random ones on the first step's rows");
  }

  const StoredDtype stored = dtype == at::kBFloat16 ? StoredDtype::kBF16 : StoredDtype::kF32;
  const fs::path source = config.model.hf_assets_path;
  const ExportReport report = export_hf(options.folder / "export", TensorWeights(named_masters(model)),
                                        {.dtype = stored,
                                         .source_folder = source,
                                         .config_json = write_config_json(args, source / "config.json", std::string(config_dtype_name(stored)))});
  model.initialize(static_cast<uint64_t>(config.debug.seed) + 1);  // so that only the export can bring the loss back
  Config from_export = config;
  from_export.checkpoint.initial_load_path = report.folder.string();
  load_initial_weights(from_export, model);
  const double again = first_loss(config, model, *loader);
  stage.figure("exported", fmt::format("{} tensors, {}", report.tensors, in_bytes(report.bytes)));
  stage.figure("first loss, reloaded export", fmt::format("{:.4f}", again));
  if (again != loss) stage.fail(fmt::format("the reloaded export's loss {} differs from {}", again, loss));
}

void measure_speed(const Config& config, const TrialOptions& options, TrialStage& stage) {
  const Config run = short_run(config, options, "run");
  if (train(run) != 0) throw RunStopped("the trial's training was interrupted");
  const MetricsHistory history = read_metrics(options.folder / "run" / "metrics.jsonl");
  std::vector<StepTiming> timings;
  double total = 0;
  uint64_t peak_bytes = 0;
  for (const auto& step : history.steps) {
    timings.push_back({.step = step.step, .tokens = step.tokens, .seconds = step.seconds, .data_seconds = step.data_seconds});
    total += step.seconds;
    peak_bytes = std::max(peak_bytes, step.memory.peak_bytes);
  }
  const Summary summary = summarize(timings, run.metrics.warmup_steps, total);
  stage.figure("first step", stretch_words(summary.first));
  stage.figure("warm-up", stretch_words(summary.warmup));
  stage.figure("sustained", stretch_words(summary.sustained));
  if (history.steps.back().mfu >= 0) stage.figure("MFU of the last step", fmt::format("{:.1f}%", history.steps.back().mfu));
  stage.figure("peak memory", in_bytes(peak_bytes));
  const double rest = static_cast<double>(config.training.steps) * summary.sustained.mean_seconds;
  stage.figure("the whole run at this speed", fmt::format("{} for {} steps", in_duration(rest), with_commas(config.training.steps)));
  stage.figure("loss, first to last step", fmt::format("{:.4f} to {:.4f}", history.steps.front().loss, history.steps.back().loss));
}

void compare_validation(const TrialOptions& options, TrialStage& stage) {
  const MetricsHistory history = read_metrics(options.folder / "run" / "metrics.jsonl");
  if (history.validations.size() < 2) throw CheckFailed("the run holds {} validations, two are needed", history.validations.size());
  const auto& before = history.validations.front();
  const auto& after = history.validations.back();
  stage.figure("held-out tokens", with_commas(after.valid_tokens));
  stage.figure("held-out loss before", fmt::format("{:.4f} (perplexity {:.2f})", before.loss, std::exp(before.loss)));
  stage.figure(fmt::format("held-out loss after {} steps", after.step), fmt::format("{:.4f} (perplexity {:.2f})", after.loss, std::exp(after.loss)));
  constexpr double kMostRise = 0.02;  // of the loss: a few steps of warm-up need not lower it yet, but they must not spoil it
  if (!(after.loss <= before.loss * (1 + kMostRise))) stage.fail("training made the held-out loss worse");
}

void check_resume(const Config& config, const TrialOptions& options, TrialStage& stage) {
  const Config again = short_run(config, options, "resumed");
  const std::string step = fmt::format("step-{}", again.checkpoint.interval);
  const fs::path from = options.folder / "run", to = again.job.dump_folder;
  create_folders(to / "checkpoint");
  fs::copy(from / "checkpoint" / step, to / "checkpoint" / step, fs::copy_options::recursive);
  fs::copy(from / "metrics.jsonl", to / "metrics.jsonl");  // resuming cuts what lies past the checkpoint
  if (train(again) != 0) throw RunStopped("the resumed training was interrupted");
  const LossComparison comparison = compare_losses(from, to, /*common_steps_only=*/false);
  stage.figure("resumed from", step);
  stage.figure("steps repeated", fmt::format("{}", comparison.num_steps - again.checkpoint.interval));
  stage.figure("records that differ", fmt::format("{}", comparison.num_different));
  if (!comparison.equal()) stage.fail("the resumed run differs from the uninterrupted one: " + in_words(*comparison.first));
}

}  // namespace trine
