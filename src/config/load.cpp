#include "config/load.h"

#include "base/errors.h"
#include "config/check_together.h"
#include "config/command_line.h"
#include "config/options.h"
#include "config/toml.h"

namespace trine {
namespace {

// A name for files that end alike; .gz and .zst are looked through.
std::string dataset_of(const std::filesystem::path& path) {
  std::filesystem::path name = path.filename();
  if (name.extension() == ".gz" || name.extension() == ".zst") name = name.stem();
  const std::string ending = name.extension().string();
  if (ending == ".jsonl" || ending == ".json" || ending == ".ndjson") return "jsonl";
  if (ending == ".txt" || ending == ".md") return "text";
  if (ending == ".parquet") return "parquet";
  if (ending == ".tokens") return "shards";
  return "";
}

std::vector<std::string> datasets_of(const std::vector<std::string>& paths, const char* section) {
  std::vector<std::string> datasets;
  for (const std::string& path : paths) {
    datasets.push_back(dataset_of(path));
    if (datasets.back().empty()) {
      throw UserError("{0}.dataset_path \"{1}\": its name does not tell the format. Give {0}.dataset (jsonl, text, parquet, shards, chat).",
                      section, path);
    }
  }
  return datasets;
}

// What follows from the other options when it is left open.
void fill_in(Config& config) {
  if (config.job.dump_folder.empty()) {
    config.job.dump_folder = "runs/" + (config.recipe.empty() ? "default" : config.recipe.stem().string());
  }

  DataloaderConfig& data = config.dataloader;
  if (data.dataset.empty()) {
    data.dataset = data.dataset_path.empty() ? std::vector<std::string>{"sample"} : datasets_of(data.dataset_path, "dataloader");
  }

  ValidationConfig& validation = config.validation;
  if (validation.enable && validation.dataset.empty()) {
    if (!validation.dataset_path.empty()) {
      // Files without a telling ending are taken to be of the training data's one format.
      const bool one_format = data.dataset.size() == 1 && data.dataset[0] != "sample";
      validation.dataset = one_format ? data.dataset : datasets_of(validation.dataset_path, "validation");
    } else if (data.dataset == std::vector<std::string>{"sample"}) {
      validation.dataset = {"sample"};
    }
  }

  CheckpointConfig& checkpoint = config.checkpoint;
  if (checkpoint.initial_load_in_hf && checkpoint.initial_load_path.empty()) checkpoint.initial_load_path = config.model.hf_assets_path;
}

}  // namespace

Config load_config(const std::filesystem::path& recipe, std::span<const std::string> options) {
  Config config = default_config();
  Origins origins;
  if (!recipe.empty()) apply_recipe(recipe, config, origins);
  apply_command_line(options, config, origins);
  fill_in(config);
  check_together(config, origins);
  return config;
}

}  // namespace trine
