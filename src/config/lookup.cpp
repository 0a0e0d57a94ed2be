#include "config/lookup.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/errors.h"
#include "config/options.h"

namespace trine {
namespace {

const std::vector<LaterFeature>& later_features() {
  static const std::vector<LaterFeature> features = {
      {"compile.*", "compile models", {"false"}},
      {"lora.*", "train LoRA adapters", {"false"}},
      {"quantize.*", "train in 8 bits", {"false"}},
      {"float8.*", "train in 8 bits", {"false"}},
      {"parallelism.pipeline_parallel_*", "split a model into pipeline stages", {"1"}},
      {"parallelism.data_parallel_shard_degree", "train on several ranks", {"1", "-1"}},
      {"parallelism.*", "train on several ranks", {"1", "false"}},
      {"comm.*", "train on several ranks", {}},
      {"override.*", "replace parts of the model", {"[]"}},
      {"device.plugin", "load a device from a plug-in", {"\"\""}},
      {"device.sim", "simulate a device", {"false"}},
      {"expect.replacements", "replace parts of the model", {"[]"}},
  };
  return features;
}

// Names that other programs (and people) use for an option here.
const std::map<std::string, std::string, std::less<>>& other_names() {
  static const std::map<std::string, std::string, std::less<>> names = {
      {"batch_size", "training.local_batch_size"},
      {"betas", "optimizer.beta1"},
      {"clip_grad_norm", "training.max_norm"},
      {"context_length", "training.seq_len"},
      {"data_path", "dataloader.dataset_path"},
      {"decay", "optimizer.weight_decay"},
      {"epochs", "dataloader.num_epochs"},
      {"freq", "validation.interval"},
      {"gradient_accumulation_steps", "training.global_batch_size"},
      {"gradient_clipping", "training.max_norm"},
      {"learning_rate", "optimizer.lr"},
      {"load_balance_coeff", "moe.bias_update_rate"},
      {"max_context_length", "training.seq_len"},
      {"max_grad_norm", "training.max_norm"},
      {"max_length", "training.seq_len"},
      {"max_seq_length", "training.seq_len"},
      {"max_steps", "training.steps"},
      {"micro_batch_size", "training.local_batch_size"},
      {"model_name_or_path", "model.hf_assets_path"},
      {"num_layers", "model.num_hidden_layers"},
      {"num_train_epochs", "dataloader.num_epochs"},
      {"output_dir", "job.dump_folder"},
      {"per_device_train_batch_size", "training.local_batch_size"},
      {"random_seed", "debug.seed"},
      {"router_aux_loss_coef", "moe.aux_loss_weight"},
      {"save_steps", "checkpoint.interval"},
      {"sequence_length", "training.seq_len"},
      {"tokenizer_path", "model.hf_assets_path"},
      {"warmup", "lr_scheduler.warmup_steps"},
  };
  return names;
}

// The option whose own name, full name or other name is nearest to what was written, preferring the section it was written in.
std::string nearest_option(const std::string& section, const std::string& name) {
  std::vector<std::string> here, full_names, short_names, foreign;
  for (const OptionSection& each : option_table()) {
    for (const Option& option : each.options) {
      if (each.name == section) here.push_back(option.name);
      full_names.push_back(option.full_name());
      short_names.push_back(option.name);
    }
  }
  for (const auto& [other, ours] : other_names()) foreign.push_back(other);

  if (const std::string near = nearest(name, here); !near.empty()) return section + "." + near;
  if (const std::string near = nearest(name, foreign); !near.empty()) return other_names().at(near);
  if (const std::string near = nearest(name, short_names); !near.empty()) {
    return full_names[std::ranges::find(short_names, near) - short_names.begin()];
  }
  return nearest(section + "." + name, full_names);
}

std::vector<std::string> section_names() {
  std::vector<std::string> names;
  for (const OptionSection& section : option_table()) names.push_back(section.name);
  return names;
}

[[noreturn]] void throw_unknown(std::string_view section, std::string_view name, std::string_view where) {
  const std::string written = fmt::format("{}.{}", section, name);
  std::vector<std::string> homes;  // sections that have an option of exactly this name
  for (const OptionSection& each : option_table()) {
    if (find_option(each.name, name)) homes.push_back(fmt::format("{}.{}", each.name, name));
  }
  if (!homes.empty()) {
    throw UserError("{}: {} is in the wrong section: the option is {}.", where, written, fmt::join(homes, " or "));
  }
  const std::string near = nearest_option(std::string(section), std::string(name));
  if (!near.empty()) throw UserError("{}: there is no option {}. Did you mean {}?", where, written, near);
  if (!find_section(section)) {
    throw UserError("{}: there is no option {}, and no section [{}].{}", where, written, section, suggest(section, section_names(), 100));
  }
  std::vector<std::string> here;
  for (const Option& option : find_section(section)->options) here.push_back(option.name);
  throw UserError("{}: there is no option {}. Known in [{}]: {}.", where, written, section, fmt::join(here, ", "));
}

bool matches(std::string_view pattern, std::string_view full_name) {
  if (!pattern.ends_with('*')) return pattern == full_name;
  return full_name.starts_with(pattern.substr(0, pattern.size() - 1));
}

}  // namespace

const Option& require_option(std::string_view section, std::string_view name, std::string_view where) {
  const Option* option = find_option(section, name);
  if (!option) throw_unknown(section, name, where);
  return *option;
}

void require_section(std::string_view section, std::string_view where) {
  if (find_section(section) || later_feature(section, "")) return;
  throw UserError("{}: there is no section [{}].{}", where, section, suggest(section, section_names(), 100));
}

const LaterFeature* later_feature(std::string_view section, std::string_view name) {
  const std::string full_name = fmt::format("{}.{}", section, name);
  const auto found =
      std::ranges::find_if(later_features(), [&](const LaterFeature& feature) { return matches(feature.pattern, full_name); });
  return found == later_features().end() ? nullptr : &*found;
}

bool asks_nothing_of_later_feature(std::string_view section, std::string_view name, std::string_view value, std::string_view where) {
  const LaterFeature* feature = later_feature(section, name);
  if (!feature) return false;
  if (std::ranges::find(feature->off_values, value) != feature->off_values.end()) return true;
  throw UserError("{}: {}.{} = {}: this version of Trine cannot {} yet. Leave the option out.", where, section, name, value, feature->what);
}

}  // namespace trine
