#include "verify/weights.h"

#include <algorithm>
#include <optional>

#include "base/errors.h"
#include "base/files.h"
#include "base/format.h"
#include "base/hashing.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/load_weights.h"
#include "checkpoint/store.h"
#include "model/model_args.h"
#include "verify/tensor_stats.h"

namespace trine {

namespace fs = std::filesystem;

namespace {

const TiedNames kTiedHead = {{"lm_head.weight", "model.embed_tokens.weight"}};

// Files in a hub cache are links to blobs named by their SHA-256. Returns how many were checked; throws for one that differs.
int64_t check_hub_hashes(const HfWeights& weights) {
  int64_t checked = 0;
  for (const auto& file : weights.files()) {
    std::error_code error;
    const std::string blob = fs::canonical(file->path(), error).filename().string();
    const bool is_hash = blob.size() == 64 && blob.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (error || !is_hash || !fs::is_symlink(file->path())) continue;
    if (sha256_hex(file->all_bytes()) != blob) {
      throw UserError("{} does not have the SHA-256 that its name in the hub cache says; download it again", file->path().string());
    }
    ++checked;
  }
  return checked;
}

// Opens the weights; for a checkpoint that reads and compares all hashes of the weights' files.
std::string check_files(const fs::path& path, std::unique_ptr<WeightSource>& source) {
  source = open_weights(path);
  const auto* hf = dynamic_cast<const HfWeights*>(&source->stored());
  if (!hf) return source->description() + ", hashes equal to the manifest's";
  const int64_t hashes = check_hub_hashes(*hf);
  uint64_t bytes = 0;
  for (const auto& file : hf->files()) bytes += file->file_bytes();
  return fmt::format("{} {}, {}{}; {}", hf->files().size(), hf->files().size() == 1 ? "file" : "files", in_bytes(bytes),
                     hf->has_index() ? ", index agrees" : "",
                     hashes ? fmt::format("SHA-256 of {} equal to the hub's", hashes) : "no published hashes beside them to compare with");
}

// config.json of the weights: beside them, or carried by the checkpoint.
ModelArgs read_config(const fs::path& path, const WeightSource& source) {
  if (const auto* checkpoint = dynamic_cast<const CheckpointWeights*>(&source.stored())) {
    return read_config_json(checkpoint->reader().folder() / "config.json");
  }
  return read_config_json((fs::is_directory(path) ? path : path.parent_path()) / "config.json");
}

void check_keys(const WeightSource& source, const ModelArgs& args, WeightReport& report) {
  std::map<std::string, std::vector<int64_t>> wanted;
  const ModuleSpec spec = build_spec(args);
  for (const NamedParameter& parameter : named_parameters(spec)) wanted[parameter.name] = parameter.spec->shape;
  const KeyAccount account = account_keys(source, wanted, args.tie_word_embeddings ? kTiedHead : TiedNames{});
  report.checks.push_back(
      {"keys and shapes", account.fits(),
       account.fits() ? fmt::format("{} of {}, none left over", account.wanted, account.wanted) : explain(account, source)});

  WeightCheck head{"tied head", true, args.tie_word_embeddings ? "tied, and absent from the files" : "a matrix of its own"};
  for (const std::string& name : account.tied) {
    const std::string fault = tied_fault(source, name, kTiedHead.at(name));
    head.passed = fault.empty();
    head.detail = fault.empty() ? fmt::format("tied; {} is in the files and equals {}", name, kTiedHead.at(name)) : fault;
  }
  report.checks.push_back(head);
}

WeightCheck check_dtypes(const WeightSource& source, const std::optional<ModelArgs>& args, WeightReport& report) {
  std::vector<std::string> unusable;
  for (const StoredTensor& tensor : source.tensors()) {
    ++report.dtypes[std::string(dtype_name(tensor.dtype))];
    report.values += element_count(tensor.shape);
    if (config_dtype_name(tensor.dtype).empty() && tensor.dtype != StoredDtype::kF64) unusable.push_back(tensor.name);
  }
  report.tensors = static_cast<int64_t>(source.tensors().size());
  if (!unusable.empty()) return {"dtypes", false, "not floating point: " + first_few(unusable)};
  std::string detail;
  for (const auto& [dtype, count] : report.dtypes) detail += fmt::format("{}{} of {}", detail.empty() ? "" : ", ", count, dtype);
  if (args && !args->torch_dtype.empty()) {
    const auto stated = parse_config_dtype(args->torch_dtype);
    if (!stated || !report.dtypes.contains(std::string(dtype_name(*stated)))) {
      report.notes.push_back(fmt::format("config.json says {}, and no tensor is of that type", args->torch_dtype));
    }
  }
  return {"dtypes", true, detail};
}

WeightCheck check_finite(const WeightSource& source, const std::vector<TensorStats>& stats) {
  std::vector<std::string> bad;
  for (size_t i = 0; i < stats.size(); ++i) {
    if (stats[i].num_not_finite) {
      bad.push_back(fmt::format("{} ({} of {})", source.tensors()[i].name, stats[i].num_not_finite, stats[i].count));
    }
  }
  return {"finite", bad.empty(), bad.empty() ? "no NaN, no infinity" : "NaN or infinite: " + first_few(bad)};
}

// Matrices as they were drawn among trained ones are a part that was never loaded. Nearly all of them so, and norms at exactly 1, are a
// random start. Drawn ones among others that are still near their start are a run that has only begun, and fine.
WeightCheck check_trained(const WeightSource& source, const std::vector<TensorStats>& stats, const ModelArgs& args, WeightReport& report) {
  std::vector<std::string> drawn, constant;
  int64_t near_start = 0, trained = 0, norms = 0, norms_at_one = 0;
  for (size_t i = 0; i < stats.size(); ++i) {
    const StoredTensor& tensor = source.tensors()[i];
    const TensorStats& s = stats[i];
    const Origin origin = origin_of(s, tensor.shape, args.initializer_range, args.num_hidden_layers);
    if (origin == Origin::kDrawn) drawn.push_back(tensor.name);
    near_start += origin == Origin::kNearStart;
    trained += origin == Origin::kTrained;
    if (tensor.shape.size() >= 2 && s.count > 1 && s.least == s.most) constant.push_back(tensor.name);
    if (tensor.name.ends_with("norm.weight")) {
      ++norms;
      norms_at_one += s.least == 1 && s.most == 1;
    }
  }
  const auto num_drawn = static_cast<int64_t>(drawn.size()), matrices = num_drawn + near_start + trained;
  if (!constant.empty()) return {"trained", false, "one value everywhere: " + first_few(constant)};
  if (num_drawn == 0) return {"trained", true, fmt::format("none of {} matrices looks freshly drawn", matrices)};
  if (trained > num_drawn + near_start) {
    return {"trained", false,
            fmt::format("{} of {} matrices look freshly drawn among trained ones: {}", num_drawn, matrices, first_few(drawn))};
  }
  if (norms_at_one == norms) {
    return {"trained", false,
            fmt::format("a random start: {} of {} matrices look freshly drawn, and all {} norms are 1", num_drawn, matrices, norms)};
  }
  report.notes.push_back(
      fmt::format("{} of {} matrices are as drawn, {} near it: a run that has only begun", num_drawn, matrices, near_start));
  return {"trained", true, fmt::format("{} of {} norms have moved from 1", norms - norms_at_one, norms)};
}

}  // namespace

bool WeightReport::passed() const {
  return std::all_of(checks.begin(), checks.end(), [](const WeightCheck& check) { return check.passed; });
}

WeightReport check_weights(const fs::path& path) {
  WeightReport report;
  if (!fs::exists(path)) throw UserError("{} does not exist", path.string());
  std::unique_ptr<WeightSource> source;
  try {
    report.checks.push_back({"files", true, check_files(path, source)});
  } catch (const UserError& e) {
    report.checks.push_back({"files", false, e.what()});
    return report;
  }
  report.notes = source->notes();

  std::optional<ModelArgs> args;
  try {
    args = read_config(path, *source);
    report.checks.push_back({"config", true, fmt::format("{}, {} layers, {}", args->model_type, args->num_hidden_layers,
                                                         args->tie_word_embeddings ? "tied" : "untied")});
  } catch (const UserError& e) {
    report.checks.push_back({"config", false, e.what()});
  }
  if (args) check_keys(*source, *args, report);
  report.checks.push_back(check_dtypes(*source, args, report));
  const std::vector<TensorStats> stats = tensor_stats(*source);
  report.checks.push_back(check_finite(*source, stats));
  if (args) report.checks.push_back(check_trained(*source, stats, *args, report));
  return report;
}

}  // namespace trine
