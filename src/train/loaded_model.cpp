#include "train/loaded_model.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/json.h"
#include "base/log.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/store.h"
#include "config/load.h"
#include "model/model_args.h"

namespace trine {
namespace {

namespace fs = std::filesystem;

// The folder of tokenizer files that a run's recipe named, if it is still there.
fs::path assets_of_run(const fs::path& run) {
  const fs::path assets = load_config(run / "config.toml", {}).model.hf_assets_path;
  if (assets.empty() || fs::exists(assets / "tokenizer.json")) return assets;
  log::warning("the tokenizer files of {} were in {}, which is not there now", run.string(), assets.string());
  return {};
}

ModelFiles checkpoint_files(const fs::path& path) {
  ModelFiles files{.folder = path, .weights = open_weights(path)};
  const fs::path step_folder = fs::absolute(dynamic_cast<CheckpointWeights&>(*files.weights).reader().folder()).lexically_normal();
  files.config = step_folder / "config.json";
  files.run = step_folder.parent_path().parent_path();
  if (fs::exists(files.run / "config.toml")) files.assets = assets_of_run(files.run);
  return files;
}

at::ScalarType most_common_type(const WeightSource& source) {
  std::map<StoredDtype, int64_t> values;
  for (const StoredTensor& tensor : source.tensors()) values[tensor.dtype] += element_count(tensor.shape);
  const auto most = std::max_element(values.begin(), values.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most != values.end() && most->first == StoredDtype::kBF16 ? at::kBFloat16 : at::kFloat;
}

// The end tokens that generation_config.json names, if there is one.
std::vector<int64_t> generation_end_tokens(const fs::path& folder) {
  const fs::path file = folder / "generation_config.json";
  if (!fs::exists(file)) return {};
  const Json json = read_json_file(file);
  const Json eos = json.is_object() ? json.value("eos_token_id", Json()) : Json();
  if (eos.is_null()) return {};
  try {
    return eos.is_array() ? eos.get<std::vector<int64_t>>() : std::vector<int64_t>{eos.get<int64_t>()};
  } catch (const Json::exception&) {
    throw UserError("{}: eos_token_id must be a number, a list of numbers or null, and is {}", file.string(), eos.dump());
  }
}

std::vector<int64_t> end_tokens(const LoadedModel& loaded) {
  std::vector<int64_t> ids = loaded.model->args().eos_token_ids;
  for (const int64_t id : generation_end_tokens(loaded.files.assets.empty() ? loaded.files.folder : loaded.files.assets)) {
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
  }
  if (ids.empty() && loaded.tokenizer && loaded.tokenizer->eos_token_id()) ids.push_back(*loaded.tokenizer->eos_token_id());
  return ids;
}

}  // namespace

ModelFiles find_model(const fs::path& path) {
  if (!fs::exists(path)) throw UserError("MODEL: {} does not exist", path.string());
  if (!fs::is_directory(path)) {
    throw UserError("MODEL: {} is a file; a Hugging Face folder, a run folder or a checkpoint (.../checkpoint/step-N) is needed",
                    path.string());
  }
  const bool is_checkpoint = fs::exists(path / "manifest.json");
  if (is_checkpoint || !checkpoint_steps(path / "checkpoint").empty() || !checkpoint_steps(path).empty()) return checkpoint_files(path);
  if (!fs::exists(path / "config.json") && fs::exists(path / "export" / "config.json")) {
    log::info("{} holds no checkpoint; its export is used", path.string());
    return find_model(path / "export");
  }
  ModelFiles files{.folder = path};
  if (fs::exists(path / "config.json")) files.config = path / "config.json";
  if (fs::exists(path / "tokenizer.json")) files.assets = path;
  if (has_hf_weights(path)) files.weights = open_weights(path);
  if (files.config.empty() && files.assets.empty()) {
    throw UserError("MODEL: {} is neither a Hugging Face folder (config.json), nor a run folder, nor a checkpoint", path.string());
  }
  return files;
}

const Tokenizer& LoadedModel::require_tokenizer() const {
  if (!tokenizer) throw UserError("{} has no tokenizer.json, and text cannot be read or written without one", files.folder.string());
  return *tokenizer;
}

void load_parameters(Model& model, const WeightSource& source) {
  std::vector<WantedTensor> wanted;
  for (const Parameter* parameter : model.parameters()) wanted.push_back({parameter->name, parameter->shape, parameter->master});
  std::map<std::string, std::string> tied;
  if (model.args().tie_word_embeddings) tied["lm_head.weight"] = "model.embed_tokens.weight";
  const LoadReport report = load_weights(source, wanted, tied);
  model.masters_changed();

  std::string dtypes;
  for (const auto& [dtype, number] : report.source_dtypes) dtypes += fmt::format("{}{} {}", dtypes.empty() ? "" : ", ", number, dtype);
  log::info("loaded {}/{} tensors from {} ({})", report.loaded, report.total, source.description(), dtypes);
  for (const std::string& note : source.notes()) log::info("{}", note);
  for (const std::string& note : report.notes) log::info("{}", note);
}

void initialize_randomly(Model& model, uint64_t seed) {
  model.initialize(seed);
  log::info("RANDOM INIT with seed {}: expect a first loss near {:.2f} (ln {} + {} * {}^2 / 2)", seed, random_loss(model.args()),
            model.args().vocab_size, model.args().hidden_size, model.args().initializer_range);
}

LoadedModel load_model(const fs::path& path, const LoadedModelOptions& options) {
  if (!options.flavor.empty() && !options.random) throw UserError("a flavor's sizes have no weights: ask for a random start as well");
  LoadedModel loaded;
  loaded.files = find_model(path);
  if (options.flavor.empty() && loaded.files.config.empty()) {
    throw UserError("{} has no config.json, so the model's sizes are not known; name a flavor for a random start", path.string());
  }
  const ModelArgs args = options.flavor.empty() ? read_config_json(loaded.files.config) : flavor_args(options.flavor);
  if (!loaded.files.assets.empty()) loaded.tokenizer = Tokenizer::from_folder(loaded.files.assets);

  if (!options.random && !loaded.files.weights) {
    throw UserError("{} holds no weights (no .safetensors file); ask for a random start if that is what you want", path.string());
  }
  const at::ScalarType dtype = options.dtype ? *options.dtype : options.random ? at::kBFloat16 : most_common_type(*loaded.files.weights);
  loaded.model = std::make_unique<Model>(args, build_spec(args), UnitDtypes{.master = dtype, .compute = dtype, .gradient = dtype});
  if (options.random) {
    initialize_randomly(*loaded.model, options.seed);
    loaded.weights = fmt::format("random, seed {}", options.seed);
  } else {
    load_parameters(*loaded.model, *loaded.files.weights);
    loaded.weights = loaded.files.weights->description();
  }
  loaded.eos_token_ids = end_tokens(loaded);
  return loaded;
}

}  // namespace trine
