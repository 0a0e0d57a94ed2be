#include "config/check_together.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/errors.h"
#include "base/log.h"
#include "config/options.h"

namespace trine {
namespace {

using Names = std::vector<std::string>;

class TogetherChecks {
 public:
  TogetherChecks(const Config& config, const Origins& origins) : config_(config), origins_(origins) {}

  void check_batches() const {
    const TrainingConfig& training = config_.training;
    if (training.global_batch_size > 0 && training.global_batch_size % training.local_batch_size != 0) {
      fail({"training.global_batch_size", "training.local_batch_size"},
           "a step of {} rows cannot be made of micro-batches of {}. Make the first a multiple of the second.", training.global_batch_size,
           training.local_batch_size);
    }
  }

  void check_dtypes() const {
    const TrainingConfig& training = config_.training;
    if (training.dtype == "bfloat16" && training.mixed_precision_param == "float32") {
      fail({"training.dtype", "training.mixed_precision_param"},
           "float32 computation cannot make up for bfloat16 master weights. Use float32 for both, or bfloat16 for the computation.");
    }
    const bool one_micro_batch = training.global_batch_size == -1 || training.global_batch_size == training.local_batch_size;
    if (training.mixed_precision_reduce == "bfloat16" && (training.dtype != "bfloat16" || !one_micro_batch)) {
      fail({"training.mixed_precision_reduce", "training.dtype", "training.global_batch_size"},
           "gradients may stay in bfloat16 only with bfloat16 master weights and one micro-batch a step, since sums would lose digits. "
           "Use float32.");
    }
  }

  void check_rounding() const {
    if (config_.optimizer.stochastic_rounding && config_.training.dtype != "bfloat16") {
      fail({"optimizer.stochastic_rounding", "training.dtype"},
           "{} master weights keep small updates, and only bfloat16 ones can be rounded at random. Leave it off, or set "
           "training.dtype = \"bfloat16\".", config_.training.dtype);
    }
  }

  void check_schedule() const {
    const int64_t steps = config_.training.steps, warmup = config_.lr_scheduler.warmup_steps;
    const int64_t decay =
        config_.lr_scheduler.decay_ratio ? std::llround(*config_.lr_scheduler.decay_ratio * static_cast<double>(steps)) : 0;
    if (warmup > steps) {
      log::warning("lr_scheduler.warmup_steps ({}) is more than training.steps ({}): the learning rate never reaches optimizer.lr.", warmup,
                   steps);
    } else if (warmup + decay > steps) {
      log::warning("The warm-up ({} steps) and the decay ({} steps) overlap in a run of {} steps.", warmup, decay, steps);
    }
    for (const int64_t step : config_.profiling.steps) {
      if (step > steps) log::warning("profiling.steps names step {}, after the last one ({}).", step, steps);
    }
  }

  void check_dataset(const std::string& section, const Names& datasets, const Names& paths) const {
    const std::string dataset_name = section + ".dataset", path_name = section + ".dataset_path";
    for (const std::string& dataset : datasets) {
      if (dataset == "sample" && !paths.empty()) {
        fail({dataset_name, path_name}, "sample is the corpus that comes with Trine and takes no path. Say the files' format: jsonl, text, "
             "parquet, shards or chat.");
      }
      if (dataset == "c4_test" && paths.empty()) {
        fail({dataset_name},
             "c4_test does not come with Trine: give torchtitan's folder of that name as {}. The substitute that comes with "
             "Trine is the dataset sample.",
             path_name);
      }
      if (dataset != "sample" && paths.empty()) fail({dataset_name}, "\"{}\" is a format: give the files as {}.", dataset, path_name);
    }
    if (datasets.size() > 1 && datasets.size() != paths.size()) {
      fail({dataset_name, path_name}, "{} datasets for {} paths. Give one for all paths, or one each.", datasets.size(), paths.size());
    }
  }

  void check_data() const {
    const DataloaderConfig& data = config_.dataloader;
    check_dataset("dataloader", data.dataset, data.dataset_path);
    if (!data.weights.empty() && data.weights.size() != data.dataset_path.size()) {
      fail({"dataloader.weights", "dataloader.dataset_path"}, "{} weights for {} paths. Give one each.", data.weights.size(),
           data.dataset_path.size());
    }
    if (!config_.validation.enable) return;
    if (config_.validation.dataset.empty()) {
      fail({"validation.enable"}, "validation needs text: give validation.dataset_path, files that are not trained on.");
    }
    check_dataset("validation", config_.validation.dataset, config_.validation.dataset_path);
    for (const std::string& path : config_.validation.dataset_path) {
      if (std::ranges::find(data.dataset_path, path) != data.dataset_path.end()) {
        log::warning("{} is both trained on and validated on; the validation loss will say nothing about other text.", path);
      }
    }
  }

  void check_checkpoint() const {
    const CheckpointConfig& checkpoint = config_.checkpoint;
    if (checkpoint.last_save_in_hf && !checkpoint.enable) {
      fail({"checkpoint.last_save_in_hf", "checkpoint.enable"},
           "an export at the end needs saving to be on. Set checkpoint.enable = true.");
    }
    if (checkpoint.initial_load_in_hf && checkpoint.initial_load_path.empty()) {
      fail({"checkpoint.initial_load_in_hf"},
           "there is no folder to load from. Give checkpoint.initial_load_path or model.hf_assets_path.");
    }
    if (!checkpoint.mirror_path.empty() && std::filesystem::weakly_canonical(checkpoint.mirror_path) ==
                                               std::filesystem::weakly_canonical(config_.job.dump_folder)) {
      fail({"checkpoint.mirror_path", "job.dump_folder"}, "the mirror is the run folder itself. Name another place.");
    }
  }

  // The biases are no part of a published file: routing would differ from what the weights were trained with, and an export drops them.
  void check_experts() const {
    const MoeConfig& moe = config_.moe;
    const bool loads = !config_.checkpoint.initial_load_path.empty();
    if (moe.bias_update_rate > 0 && loads && !moe.allow_bias_with_loaded_weights) {
      fail({"moe.bias_update_rate", "checkpoint.initial_load_path"},
           "biases change which experts the loaded weights get, and Transformers, which reads the export, has none. Use moe.aux_loss "
           "instead, or set moe.allow_bias_with_loaded_weights = true.");
    }
    if (moe.aux_loss == "none") warn_if_given("moe.aux_loss_weight", "moe.aux_loss is none");
    if (moe.aux_loss_weight == 0) warn_if_given("moe.aux_loss", "moe.aux_loss_weight is 0");
    if (moe.force_balance) warn_if_given("moe.bias_update_rate", "moe.force_balance selects the experts");
    if (moe.bias_update_rate == 0 || !loads) {
      warn_if_given("moe.allow_bias_with_loaded_weights", "there are no biases, or no loaded weights");
    }
  }

  // Nothing is silent: an option that was given and changes nothing gets a warning.
  void warn_of_idle_options() const {
    if (!config_.validation.enable) warn_if_given("validation", {}, "validation.enable is false");
    if (!config_.checkpoint.enable) {
      warn_if_given("checkpoint", {"initial_load_path", "initial_load_in_hf", "last_save_in_hf"}, "checkpoint.enable is false");
    }
    if (config_.checkpoint.enable && !config_.checkpoint.last_save_in_hf) {
      warn_if_given("checkpoint.export_dtype", "checkpoint.last_save_in_hf is false");
    }
    if (config_.activation_checkpoint.mode != "selective") {
      warn_if_given("activation_checkpoint.selective_ac_option", "activation_checkpoint.mode is not selective");
    }
    if (!config_.expect.first_loss && !config_.expect.random_loss) {
      warn_if_given("expect.first_loss_tolerance", "neither expect.first_loss nor expect.random_loss is set");
    }
  }

 private:
  template <class... Args>
  [[noreturn]] void fail(const Names& options, fmt::format_string<Args...> format, Args&&... args) const {
    std::string who;
    for (const std::string& name : options) {
      const auto origin = origins_.find(name);
      who += fmt::format("{}{} ({})", who.empty() ? "" : ", ", name, origin == origins_.end() ? "default" : origin->second);
    }
    throw UserError("{}: {}", who, fmt::format(format, std::forward<Args>(args)...));
  }

  // Only values off their default: a resolved configuration, read back, gives every option.
  void warn_if_given(const std::string& full_name, std::string_view why) const {
    const size_t dot = full_name.find('.');
    const Option& option = *find_option(full_name.substr(0, dot), full_name.substr(dot + 1));
    const auto origin = origins_.find(full_name);
    if (origin == origins_.end() || option.get(config_) == option.default_value) return;
    log::warning("{}: {} has no effect, because {}.", origin->second, full_name, why);
  }

  void warn_if_given(const std::string& section, const Names& except, std::string_view why) const {
    for (const Option& option : find_section(section)->options) {
      if (std::ranges::find(except, option.name) == except.end()) warn_if_given(option.full_name(), why);
    }
  }

  const Config& config_;
  const Origins& origins_;
};

}  // namespace

void check_together(const Config& config, const Origins& origins) {
  const TogetherChecks checks(config, origins);
  checks.check_batches();
  checks.check_dtypes();
  checks.check_rounding();
  checks.check_schedule();
  checks.check_data();
  checks.check_checkpoint();
  checks.check_experts();
  checks.warn_of_idle_options();
}

}  // namespace trine
