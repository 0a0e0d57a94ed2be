// `trine inspect`: what lies in a file or folder, found out once as JSON and printed from it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/format.h"
#include "base/json.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/expert_layout.h"
#include "checkpoint/expert_names.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/store.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "model/model_args.h"

namespace trine {
namespace {

namespace fs = std::filesystem;

void add_tensors(OrderedJson& facts, const std::vector<StoredTensor>& tensors) {
  OrderedJson list = OrderedJson::array();
  int64_t values = 0;
  uint64_t bytes = 0;
  std::map<std::string, int64_t> values_of_dtype;
  for (const StoredTensor& tensor : tensors) {
    const std::string dtype(dtype_name(tensor.dtype));
    const uint64_t size = *tensor_bytes(tensor.dtype, tensor.shape);
    list.push_back({{"name", tensor.name}, {"dtype", dtype}, {"shape", tensor.shape}, {"bytes", size}});
    values += element_count(tensor.shape);
    values_of_dtype[dtype] += element_count(tensor.shape);
    bytes += size;
  }
  facts["tensors"] = std::move(list);
  facts["values"] = values;
  facts["bytes"] = bytes;
  facts["values_by_dtype"] = values_of_dtype;
}

void add_config(OrderedJson& facts, const fs::path& config) {
  if (!fs::exists(config)) return;
  try {
    facts["model"] = describe_model(read_config_json(config));
  } catch (const UserError& e) {
    facts["model_fault"] = e.what();  // what Trine cannot train can still be looked at
  }
}

OrderedJson inspect_model(const fs::path& path) {
  auto files = std::make_unique<HfWeights>(path);
  const HfWeights& weights = *files;
  OrderedJson facts = {{"kind", fs::is_directory(path) ? "Hugging Face folder" : "safetensors file"}};
  add_config(facts, path / "config.json");
  facts["files"] = OrderedJson::array();
  for (const auto& file : weights.files()) {
    facts["files"].push_back({{"name", file->path().filename().string()}, {"bytes", file->file_bytes()}, {"metadata", file->metadata()}});
  }
  facts["index"] = weights.has_index();
  std::unique_ptr<WeightSource> shown = std::move(files);
  std::string fault;
  try {
    shown = split_fused_experts(std::move(shown));
  } catch (const UserError& e) {
    fault = e.what();  // the tensors are shown as they lie in the files
  }
  facts["notes"] = shown->notes();
  if (!fault.empty()) facts["notes"].push_back(fault);
  add_tensors(facts, shown->tensors());
  return facts;
}

OrderedJson inspect_checkpoint(const fs::path& folder) {
  const CheckpointWeights weights(folder);
  const CheckpointReader& reader = weights.reader();
  OrderedJson facts = {{"kind", "Trine checkpoint"}, {"step", reader.step()}, {"kinds", reader.kinds()}};
  add_config(facts, folder / "config.json");
  facts["files"] = OrderedJson::array();
  for (const FileRecord& file : reader.manifest().files)
    facts["files"].push_back({{"name", file.name}, {"bytes", file.bytes}, {"xxh3", file.xxh3}});
  facts["state"] = reader.state();
  add_tensors(facts, weights.tensors());
  return facts;
}

// A run folder, or its checkpoint folder.
OrderedJson inspect_run(const fs::path& path, const fs::path& checkpoints) {
  OrderedJson facts = {{"kind", "run folder"}, {"files", OrderedJson::array()}, {"checkpoints", OrderedJson::array()}};
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(path)) entries.push_back(entry.path());
  std::sort(entries.begin(), entries.end());
  for (const fs::path& entry : entries) {
    if (fs::is_regular_file(entry)) facts["files"].push_back({{"name", entry.filename().string()}, {"bytes", fs::file_size(entry)}});
  }
  for (const int64_t step : checkpoint_steps(checkpoints)) {
    const fs::path folder = step_folder(checkpoints, step);
    OrderedJson one = {{"step", step}};
    try {
      if (const std::string fault = quick_fault(folder); !fault.empty()) throw UserError(fault);
      const Manifest manifest = read_manifest(folder / kManifestName);
      uint64_t bytes = 0;
      for (const FileRecord& file : manifest.files) bytes += file.bytes;
      one["bytes"] = bytes;
      one["parameters"] = manifest.parameters.size();
    } catch (const UserError& e) {
      one["fault"] = e.what();
    }
    facts["checkpoints"].push_back(std::move(one));
  }
  if (has_hf_weights(path / "export")) facts["export"] = (path / "export").string();
  return facts;
}

OrderedJson inspect(const fs::path& path) {
  if (!fs::exists(path)) throw UserError("{} does not exist", path.string());
  if (fs::exists(path / kManifestName)) return inspect_checkpoint(path);
  for (const fs::path& checkpoints : {path / "checkpoint", path}) {
    if (!checkpoint_steps(checkpoints).empty()) return inspect_run(path, checkpoints);
  }
  return inspect_model(path);
}

// A line per tensor; experts of a layer that have one type and shape share theirs.
void print_tensors(const OrderedJson& tensors) {
  std::vector<std::string> lines;  // the name first, where group_experts() looks for the number
  for (const OrderedJson& tensor : tensors) {
    lines.push_back(fmt::format("{}\n{:<6} [{}]", tensor["name"].get<std::string>(), tensor["dtype"].get<std::string>(),
                                fmt::join(tensor["shape"].get<std::vector<int64_t>>(), ", ")));
  }
  for (const ExpertGroup& group : group_experts(lines)) {
    uint64_t bytes = 0;
    for (const size_t member : group.members) bytes += tensors[member]["bytes"].get<uint64_t>();
    const size_t end = group.text.rfind('\n');  // a name may hold one too
    const std::string times = group.members.size() > 1 ? fmt::format(" x {}", group.members.size()) : "";
    fmt::print("  {:<27} {:>12}  {}\n", group.text.substr(end + 1) + times, in_bytes(bytes), group.text.substr(0, end));
  }
}

void print(const OrderedJson& facts) {
  const auto text = [](const OrderedJson& value) { return value.get<std::string>(); };
  fmt::print("{}{}\n", text(facts["kind"]), facts.contains("step") ? fmt::format(", step {}", facts["step"].get<int64_t>()) : "");
  if (facts.contains("model")) fmt::print("{}\n", text(facts["model"]));
  if (facts.contains("model_fault")) fmt::print("config.json: {}\n", text(facts["model_fault"]));
  if (facts.contains("tensors")) print_tensors(facts["tensors"]);
  for (const OrderedJson& file : facts["files"]) fmt::print("file {}: {}\n", text(file["name"]), in_bytes(file["bytes"].get<uint64_t>()));
  if (facts.contains("tensors")) {
    std::string dtypes;
    for (const auto& [dtype, values] : facts["values_by_dtype"].items())
      dtypes += fmt::format(", {} of {}", with_commas(values.get<int64_t>()), dtype);
    fmt::print("total: {} tensors, {} values ({}), {}{}\n", facts["tensors"].size(), with_commas(facts["values"].get<int64_t>()),
               in_parameters(facts["values"].get<int64_t>()), in_bytes(facts["bytes"].get<uint64_t>()), dtypes);
  }
  if (facts.contains("state")) fmt::print("state: {}\n", facts["state"].dump());
  if (facts.contains("checkpoints")) {
    for (const OrderedJson& one : facts["checkpoints"]) {
      fmt::print("checkpoint step {}: {}\n", one["step"].get<int64_t>(),
                 one.contains("fault") ? "damaged: " + text(one["fault"])
                                       : fmt::format("complete, {} parameters, {}", one["parameters"].get<int64_t>(),
                                                     in_bytes(one["bytes"].get<uint64_t>())));
    }
  }
  if (facts.contains("export")) fmt::print("export: {}\n", text(facts["export"]));
  if (facts.contains("notes")) {
    for (const OrderedJson& note : facts["notes"]) fmt::print("note: {}\n", text(note));
  }
}

int run(const Words& words) {
  std::string path;
  bool json = false;
  Arguments arguments("trine inspect",
                      "Prints what a file or folder holds: tensors with types, shapes and sizes, the model, checkpoints and totals.");
  arguments.positional("PATH", path, "a safetensors file, model folder, checkpoint or run folder");
  arguments.flag("--json", json, "print the facts as JSON");
  if (!arguments.parse(words)) return 0;
  const OrderedJson facts = inspect(path);
  json ? fmt::print("{}\n", facts.dump(2)) : print(facts);
  return 0;
}

}  // namespace

const Command kInspectCommand = {"inspect", "what a model folder, checkpoint, run folder or safetensors file holds", run};

}  // namespace trine
