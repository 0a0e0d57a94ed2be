#include "train/training_state.h"

#include "base/errors.h"
#include "base/log.h"
#include "base/versions.h"

namespace trine {
namespace {

constexpr int kStateVersion = 1;

// Calls `action(slice, values)` for every stored tensor: master values and both moments of each parameter.
template <class Action>
void for_each_slice(const TrainingState& state, const Action& action) {
  auto& segments = state.model.segments();
  for (size_t i = 0; i < segments.size(); ++i) {
    for (const auto& parameter : segments[i]->unit().parameters()) {
      const AdamWOptimizer::Moments moments = state.optimizer.moments(i, *parameter);
      action(whole_slice(parameter->name, kMaster, parameter->shape), parameter->master.view({-1}));
      action(whole_slice(parameter->name, kExpAvg, parameter->shape), moments.exp_avg);
      action(whole_slice(parameter->name, kExpAvgSq, parameter->shape), moments.exp_avg_sq);
    }
  }
}

Json schedule_json(const LrScheduleOptions& options) {
  return {{"lr", options.lr},
          {"num_steps", options.num_steps},
          {"warmup_steps", options.warmup_steps},
          {"decay_ratio", options.decay_ratio ? Json(*options.decay_ratio) : Json()},
          {"decay_type", static_cast<int>(options.decay)},
          {"min_lr_factor", options.min_lr_factor}};
}

LrScheduleOptions schedule_from(const Json& json) {
  LrScheduleOptions options{.lr = json.at("lr"), .num_steps = json.at("num_steps"), .warmup_steps = json.at("warmup_steps")};
  if (!json.at("decay_ratio").is_null()) options.decay_ratio = json.at("decay_ratio").get<double>();
  options.decay = static_cast<LrDecay>(json.at("decay_type").get<int>());
  options.min_lr_factor = json.at("min_lr_factor");
  return options;
}

// Settings that change what the coming steps compute; a difference on resume is said.
Json settings_json(const Config& config) {
  return {{"optimizer.beta1", config.optimizer.beta1},
          {"optimizer.beta2", config.optimizer.beta2},
          {"optimizer.eps", config.optimizer.eps},
          {"optimizer.weight_decay", config.optimizer.weight_decay},
          {"optimizer.stochastic_rounding", config.optimizer.stochastic_rounding},
          {"training.max_norm", config.training.max_norm},
          {"training.seq_len", config.training.seq_len},
          {"training.global_batch_size", config.training.global_batch_size},
          {"training.mixed_precision_param", config.training.mixed_precision_param},
          {"debug.seed", config.debug.seed}};
}

Json versions_json() {
  Json versions = {{"trine", kTrineVersion}, {"commit", git_commit()}};
  for (const LibraryVersion& library : library_versions()) versions[library.name] = library.found;
  return versions;
}

void warn_of_differences(const Json& saved, const Json& now, std::string_view what) {
  for (const auto& [name, value] : now.items()) {
    if (saved.contains(name) && saved.at(name) != value) {
      log::warning("{} {} was {} when the checkpoint was written and is {} now", what, name, saved.at(name).dump(), value.dump());
    }
  }
}

}  // namespace

std::vector<CheckpointParameter> checkpoint_parameters(Model& model) {
  std::vector<CheckpointParameter> result;
  for (const Parameter* parameter : model.parameters()) result.push_back({parameter->name, parameter->shape});
  return result;
}

void save_training_state(CheckpointSaver& saver, int64_t step, const TrainingState& state) {
  std::vector<TensorSlice> slices;
  for_each_slice(state, [&](Slice slice, const at::Tensor& values) { slices.push_back({std::move(slice), values}); });
  Json json = {{"version", kStateVersion},
               {"step", step},
               {"data", state.loader.state()},
               {"lr_scheduler", schedule_json(state.schedule.options())},
               {"settings", settings_json(state.config)},
               {"versions", versions_json()}};
  const ModelArgs& args = state.model.args();
  const std::filesystem::path source =
      state.config.model.hf_assets_path.empty() ? "" : std::filesystem::path(state.config.model.hf_assets_path) / "config.json";
  saver.save(step, checkpoint_parameters(state.model), slices, std::move(json),
             {{"config.json", write_config_json(args, source, state.config.training.dtype)}});
}

int64_t restore_training_state(const CheckpointReader& checkpoint, const TrainingState& state) {
  const std::string where = checkpoint.folder().string();
  for (const Parameter* parameter : state.model.parameters()) {
    const CheckpointParameter* stored = checkpoint.find(parameter->name);
    if (!stored || stored->shape != parameter->shape) {
      throw UserError("{} cannot be resumed: it {} \"{}\" of this model. The run folder belongs to another model; choose another "
                      "--job.dump_folder or the model it was written with.", where, stored ? "holds another shape of" : "lacks", parameter->name);
    }
  }
  if (checkpoint.parameters().size() != state.model.parameters().size()) {
    throw UserError("{} cannot be resumed: it holds {} parameters, this model has {}", where, checkpoint.parameters().size(),
                    state.model.parameters().size());
  }
  for_each_slice(state, [&](const Slice& slice, at::Tensor values) { read_slice(checkpoint, slice, values); });
  state.model.masters_changed();

  const Json& json = checkpoint.state();
  try {
    if (json.at("version").get<int>() > kStateVersion) {
      throw UserError("{}: its state has version {}, this program reads up to {}. Use a newer Trine.", where, json.at("version").dump(),
                      kStateVersion);
    }
    state.loader.restore(json.at("data"));
    for (const std::string& change : schedule_changes(schedule_from(json.at("lr_scheduler")), state.schedule.options())) {
      log::warning("the learning-rate schedule differs from the checkpoint's: {}", change);
    }
    warn_of_differences(json.at("settings"), settings_json(state.config), "setting");
    warn_of_differences(json.at("versions"), versions_json(), "version of");
    return json.at("step");
  } catch (const nlohmann::json::exception& e) {
    throw UserError("{}: its state.json lacks or misspells something: {}", where, e.what());
  }
}

}  // namespace trine
