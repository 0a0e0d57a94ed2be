// Which model a run has: explicit model.* options over the folder's config.json over the flavor.
//
// When weights are loaded, config.json says what they are, and nothing may contradict it. A flavor states a size; published folders of
// one size differ in rotary base and context length (Qwen3-4B and Qwen3-4B-Instruct-2507), so there a flavor gives way with a warning.
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "base/errors.h"
#include "base/log.h"
#include "model/moe_json.h"
#include "model/moe_options.h"
#include "model/named_size.h"
#include "model/size_keys.h"

namespace trine {
namespace {

namespace fs = std::filesystem;

struct Difference {
  std::string key, left, right;
  bool shapes_parameters;
};

std::vector<Difference> differences(const ModelArgs& left, const ModelArgs& right) {
  std::vector<Difference> result;
  const auto compare = [&](const char* key, const auto& a, const auto& b, bool shapes) {
    if (a != b) result.push_back({key, fmt::format("{}", a), fmt::format("{}", b), shapes});
  };
  compare("model_type", left.model_type, right.model_type, true);
  for (const SizeKey& key : kSizeKeys) compare(key.name, left.*key.member, right.*key.member, key.shapes_parameters);
  for (const SizeKey& key : kMoeSizeKeys) compare(key.name, left.*key.member, right.*key.member, key.shapes_parameters);
  compare("norm_topk_prob", left.norm_topk_prob, right.norm_topk_prob, false);
  compare("decoder_sparse_step", left.decoder_sparse_step, right.decoder_sparse_step, true);
  compare("mlp_only_layers", left.mlp_only_layers, right.mlp_only_layers, true);
  compare("tie_word_embeddings", left.tie_word_embeddings, right.tie_word_embeddings, true);
  compare("rms_norm_eps", left.rms_norm_eps, right.rms_norm_eps, false);
  compare("rope_theta", left.rope.theta, right.rope.theta, false);
  compare("rope_type", left.rope.type, right.rope.type, false);
  compare("initializer_range", left.initializer_range, right.initializer_range, false);
  return result;
}

// "num_hidden_layers 36 and 28, hidden_size 2560 and 1024"
std::string in_words(const std::vector<Difference>& found) {
  std::vector<std::string> parts;
  for (const Difference& one : found) parts.push_back(fmt::format("{} {} and {}", one.key, one.left, one.right));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::optional<fs::path> config_json_in(const std::string& folder, const char* option) {
  if (folder.empty()) return std::nullopt;
  if (!fs::exists(folder)) throw UserError("{} = \"{}\": there is no such folder", option, folder);
  const fs::path file = fs::path(folder) / "config.json";
  if (!fs::exists(file)) return std::nullopt;
  return file;
}

// The config.json that describes the model: that of hf_assets_path, or of the folder that weights come from. Both must agree in shape.
std::optional<fs::path> find_config_json(const Config& config, bool weights_loaded) {
  const auto assets = config_json_in(config.model.hf_assets_path, "model.hf_assets_path");
  if (!weights_loaded) return assets;
  const auto weights = config_json_in(config.checkpoint.initial_load_path, "checkpoint.initial_load_path");
  if (assets && weights && !fs::equivalent(*assets, *weights)) {
    const ModelArgs a = read_config_json(*assets), b = read_config_json(*weights);
    if (const auto found = differences(a, b); !found.empty()) {
      throw UserError("{} and {} describe different models ({} and {}): {}. Point model.hf_assets_path at the folder of the weights.",
                      assets->string(), weights->string(), size_in_words(a), size_in_words(b), in_words(found));
    }
  }
  return assets ? assets : weights;
}

// A flavor beside a config.json.
void compare_flavor(const std::string& flavor, const ModelArgs& of_file, const fs::path& file, bool weights_loaded) {
  const ModelArgs of_flavor = flavor_args(flavor);
  std::vector<Difference> found = differences(of_flavor, of_file);
  if (found.empty()) return;
  const bool another_shape = std::ranges::any_of(found, &Difference::shapes_parameters);
  if (weights_loaded && another_shape) {
    throw UserError("model.flavor = \"{}\" ({}) is not the model of {} ({}), whose weights are to be loaded: {}. "
                    "Point model.hf_assets_path at a {} folder, or drop model.flavor.",
                    flavor, size_in_words(of_flavor), file.string(), size_in_words(of_file), in_words(found), flavor);
  }
  log::warning("model.flavor = \"{}\" and {} differ, and config.json's values are used: {}", flavor, file.string(), in_words(found));
}

// model.* options that only a mixture of experts has.
void refuse_options_of_experts(const ModelArgs& args, const ModelConfig& options) {
  if (args.num_experts > 0) return;
  const auto refuse = [&](const char* name) {
    throw UserError("model.{} is given, but the model is dense (model_type {}). Drop the option, or name a model with experts, such as the "
                    "flavor 30B-A3B.",
                    name, args.model_type);
  };
  for (const SizeKey& key : kMoeSizeKeys) {
    if (options.*key.option) refuse(key.name);
  }
  if (options.norm_topk_prob) refuse("norm_topk_prob");
}

ModelArgs with_options(ModelArgs args, const ModelConfig& options) {
  const int64_t layers = args.num_hidden_layers, experts = args.num_experts;
  for (const SizeKey& key : kSizeKeys) args.*key.member = (options.*key.option).value_or(args.*key.member);
  refuse_options_of_experts(args, options);
  for (const SizeKey& key : kMoeSizeKeys) args.*key.member = (options.*key.option).value_or(args.*key.member);
  args.norm_topk_prob = options.norm_topk_prob.value_or(args.norm_topk_prob);
  if (args.num_hidden_layers < layers && args.reduced_from_layers == 0) args.reduced_from_layers = layers;
  if (args.num_experts < experts && args.reduced_from_experts == 0) args.reduced_from_experts = experts;
  args.rope.theta = options.rope_theta.value_or(args.rope.theta);
  args.rms_norm_eps = options.rms_norm_eps.value_or(args.rms_norm_eps);
  args.tie_word_embeddings = options.tie_word_embeddings.value_or(args.tie_word_embeddings);
  args.initializer_range = options.initializer_range.value_or(args.initializer_range);
  args.depth_scaled_init = options.depth_scaled_init;
  return args;
}

void warn_of_names(const Config& config, const ModelArgs& args) {
  const NamedSizes sizes{count(args).parameters, args.num_hidden_layers, args.num_experts};
  const auto check = [&](const char* what, const std::string& name) {
    if (const std::string stated = size_that_does_not_fit(name, sizes); !stated.empty()) {
      log::warning("the {} \"{}\" says {}, but the model has {}", what, name, stated, size_in_words(args));
    }
  };
  check("recipe's name", config.recipe.stem().string());
  check("flavor", config.model.flavor);
}

}  // namespace

ModelArgs resolve_model_args(const Config& config, bool weights_loaded) {
  const ModelConfig& options = config.model;
  const auto file = find_config_json(config, weights_loaded);
  if (!file && options.flavor.empty()) {
    throw UserError("which model? Give model.flavor (one of {}), or a folder with a config.json as model.hf_assets_path{}",
                    fmt::join(flavor_names(), ", "),
                    options.hf_assets_path.empty() ? "" : fmt::format(" (\"{}\" has none)", options.hf_assets_path));
  }
  const ModelArgs base = file ? read_config_json(*file) : flavor_args(options.flavor);
  if (file && !options.flavor.empty()) compare_flavor(options.flavor, base, *file, weights_loaded);

  const ModelArgs args = with_options(base, options);
  const auto changed = differences(args, base);
  if (file && weights_loaded && !changed.empty()) {
    throw UserError("explicit model.* options are not what {} says of the weights that are to be loaded (option and file): {}. "
                    "Drop the options, or start without weights.",
                    file->string(), in_words(changed));
  }
  check_model_args(args, "model");
  if (!changed.empty()) warn_of_experts(args, "model");
  check_moe_options(config.moe, args);
  warn_of_names(config, args);
  return args;
}

}  // namespace trine
