#include "checkpoint/export_hf.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>

#include "base/errors.h"
#include "base/files.h"
#include "base/format.h"
#include "base/hashing.h"
#include "base/json.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/load_weights.h"
#include "checkpoint/safetensors_writer.h"
#include "checkpoint/temporary_folder.h"

namespace trine {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kChunk = int64_t{1} << 22;  // elements converted at a time
constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr const char* kProducerKey = "producer";  // in a shard's metadata: this folder is ours to replace
constexpr const char* kProducer = "trine";

bool is_weight_file(const std::string& name) {
  for (const char* ending : {".safetensors", ".index.json", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx"}) {
    if (name.ends_with(ending)) return true;
  }
  return false;
}

// Copies everything of the source folder that belongs beside weights. The model card is left out: it describes the source's weights.
void copy_side_files(const fs::path& to, const ExportOptions& options, ExportReport& report) {
  const auto write = [&](const std::string& name, std::string_view content) {
    FileWriter file(to / name);
    file.write(content);
    file.sync_and_close();
    report.files.push_back(name);
  };
  for (const auto& [name, content] : options.replaced_files) write(name, content);
  if (options.source_folder.empty()) return;
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(options.source_folder)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_regular_file() && !name.starts_with(".") && !is_weight_file(name) && name != "config.json" && name != "README.md" &&
        !options.replaced_files.contains(name)) {
      names.push_back(name);
    }
  }
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    write(name, MappedFile(options.source_folder / name).text());
    report.side_files.push_back(name);
  }
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "generation_config.json"}) {
    if (!fs::exists(to / name)) {
      report.notes.push_back(fmt::format("{} has no {}, so the export has none either", options.source_folder.string(), name));
    }
  }
}

// config.json must describe the tensors that lie beside it: readers believe it.
void check_config(const ExportOptions& options, const WeightSource& weights) {
  const Json config = parse_json(options.config_json, "config.json of the export");
  if (!config.contains("tie_word_embeddings") || !config["tie_word_embeddings"].is_boolean()) {
    throw std::logic_error("export: config.json must say tie_word_embeddings: readers' defaults differ");
  }
  if (config["tie_word_embeddings"].get<bool>() == (weights.find("lm_head.weight") != nullptr)) {
    throw std::logic_error("export: tie_word_embeddings in config.json does not agree with the presence of lm_head.weight");
  }
  for (const char* key : {"dtype", "torch_dtype"}) {
    if (config.contains(key) && config[key] != std::string(config_dtype_name(options.dtype))) {
      throw std::logic_error(
          fmt::format("export: {} in config.json is {}, the tensors are {}", key, config[key].dump(), dtype_name(options.dtype)));
    }
  }
}

// A folder may be replaced if it is empty or an earlier export of ours.
void check_destination(const fs::path& folder, const ExportOptions& options) {
  if (!fs::exists(folder)) return;
  if (!options.source_folder.empty() && fs::exists(options.source_folder) && fs::equivalent(folder, options.source_folder)) {
    throw UserError("export to {} would replace the folder that its tokenizer and config come from; choose another", folder.string());
  }
  if (!fs::is_directory(folder)) throw UserError("export to {}: a file of that name is in the way", folder.string());
  if (fs::is_empty(folder)) return;
  bool ours = false;
  try {
    const HfWeights there(folder);
    ours = std::all_of(there.files().begin(), there.files().end(), [](const auto& file) {
      const auto producer = file->metadata().find(kProducerKey);
      return producer != file->metadata().end() && producer->second == kProducer;
    });
  } catch (const UserError&) {
    // no weights, or not readable: not known to be ours
  }
  if (!ours) {
    throw UserError("export to {}: the folder exists and is no earlier export of Trine's; choose another or remove it", folder.string());
  }
}

// float16 reaches to 65,504 only; a finite value that became infinite must not slip through.
void check_range(const at::Tensor& from, const at::Tensor& to, const std::string& name) {
  if (to.scalar_type() != at::kHalf) return;
  if (at::isfinite(from).logical_and(at::isfinite(to).logical_not()).any().item<bool>()) {
    throw UserError("export as float16: {} has values beyond float16's range (65504); export as bfloat16 or float32", name);
  }
}

using Hashes = std::map<std::string, std::string>;  // tensor name -> XXH3-128 of its bytes in the export

void write_shard(const fs::path& file, const std::vector<const StoredTensor*>& tensors, const WeightSource& weights, StoredDtype dtype,
                 Hashes& hashes) {
  std::vector<TensorDeclaration> declarations;
  for (const StoredTensor* tensor : tensors) declarations.push_back({tensor->name, dtype, tensor->shape});
  SafetensorsWriter writer(file, std::move(declarations), {{"format", "pt"}, {kProducerKey, kProducer}});
  for (const StoredTensor* tensor : tensors) {  // one type only, so the writer keeps this order
    const int64_t count = element_count(tensor->shape);
    Xxh3 hash;
    for (int64_t begin = 0; begin < count; begin += kChunk) {
      const int64_t length = std::min(kChunk, count - begin);
      at::Tensor converted = at::empty({length}, to_scalar_type(dtype));
      load_tensor(weights, *tensor, converted, begin);
      if (dtype == StoredDtype::kF16) {
        at::Tensor exact = at::empty({length}, at::kFloat);
        load_tensor(weights, *tensor, exact, begin);
        check_range(exact, converted, tensor->name);
      }
      const std::span bytes(static_cast<const std::byte*>(converted.data_ptr()), converted.nbytes());
      hash.update(bytes);
      writer.write(bytes);
    }
    hashes[tensor->name] = hash.hex();
  }
  writer.finish();
}

// Tensors in order, a new shard whenever the next one would pass the limit.
std::vector<std::vector<const StoredTensor*>> into_shards(const WeightSource& weights, StoredDtype dtype, uint64_t limit) {
  std::vector<std::vector<const StoredTensor*>> shards(1);
  uint64_t filled = 0;
  for (const StoredTensor& tensor : weights.tensors()) {
    const uint64_t bytes = *tensor_bytes(dtype, tensor.shape);
    if (filled > 0 && filled + bytes > limit) {
      shards.emplace_back();
      filled = 0;
    }
    shards.back().push_back(&tensor);
    filled += bytes;
  }
  return shards;
}

void write_text(const fs::path& folder, const std::string& name, const std::string& text, ExportReport& report) {
  FileWriter file(folder / name);
  file.write(text);
  file.sync_and_close();
  report.files.push_back(name);
}

// Opens what was written as a reader would and compares everything with what was meant.
void verify(const fs::path& folder, const WeightSource& weights, StoredDtype dtype, const Hashes& hashes) {
  const HfWeights written(folder);
  if (written.tensors().size() != weights.tensors().size()) {
    throw RunStopped("export {}: a tensor is missing after writing", folder.string());
  }
  for (const StoredTensor& meant : weights.tensors()) {
    const StoredTensor* found = written.find(meant.name);
    if (!found || found->dtype != dtype || found->shape != meant.shape || xxh3_hex(written.bytes(*found)) != hashes.at(meant.name)) {
      throw RunStopped("export {}: {} reads back different from what was written; the disk may be failing", folder.string(), meant.name);
    }
    release_mapped_pages(written.bytes(*found));
  }
}

}  // namespace

TensorWeights::TensorWeights(std::vector<std::pair<std::string, at::Tensor>> tensors) {
  for (auto& [name, tensor] : tensors) {
    if (!tensor.is_contiguous()) throw std::logic_error(name + " must be contiguous");
    stored_.push_back({name, to_stored_dtype(tensor.scalar_type()), tensor.sizes().vec(), "memory"});
    values_.push_back(tensor.detach());
  }
}

void TensorWeights::visit(const StoredTensor& tensor, int64_t first, int64_t last, const Take& take) const {
  const at::Tensor& values = values_.at(static_cast<size_t>(&tensor - stored_.data()));
  const at::Tensor piece = values.view({-1}).narrow(0, first, last - first).to(at::kCPU);
  if (last > first) take(first, {static_cast<const std::byte*>(piece.data_ptr()), piece.nbytes()});
}

StoredDtype resolve_export_dtype(const std::string& option, const fs::path& source_folder, StoredDtype otherwise) {
  if (option != "source") {
    const auto dtype = parse_config_dtype(option);
    if (!dtype) throw UserError("checkpoint.export_dtype is \"{}\"; it can be source, float32, bfloat16 or float16", option);
    return *dtype;
  }
  if (!source_folder.empty() && has_hf_weights(source_folder)) {
    std::map<StoredDtype, int64_t> values;
    const HfWeights source(source_folder);
    for (const StoredTensor& tensor : source.tensors()) values[tensor.dtype] += element_count(tensor.shape);
    const auto most = std::max_element(values.begin(), values.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most != values.end() && !config_dtype_name(most->first).empty()) return most->first;
  }
  if (const fs::path config = source_folder / "config.json"; !source_folder.empty() && fs::exists(config)) {
    const Json json = read_json_file(config);
    for (const char* key : {"dtype", "torch_dtype"}) {
      if (!json.is_object() || !json.contains(key) || !json[key].is_string()) continue;
      if (const auto dtype = parse_config_dtype(json[key].get<std::string>())) return *dtype;
    }
  }
  return otherwise;
}

ExportReport export_hf(const fs::path& folder, const WeightSource& weights, const ExportOptions& options) {
  const fs::path target = fs::absolute(folder).lexically_normal();
  const fs::path destination = target.has_filename() ? target : target.parent_path();
  check_config(options, weights);
  check_destination(destination, options);
  ExportReport report;
  report.folder = folder;
  for (const StoredTensor& tensor : weights.tensors()) {
    to_scalar_type(tensor.dtype);  // throws for what cannot be converted
    report.values += element_count(tensor.shape);
    report.bytes += *tensor_bytes(options.dtype, tensor.shape);
  }
  report.tensors = static_cast<int64_t>(weights.tensors().size());
  if (const uint64_t free = free_disk_bytes(destination); free < report.bytes) {
    throw RunStopped("export to {} needs {}, where {} are free", folder.string(), in_bytes(report.bytes), in_bytes(free));
  }

  TemporaryFolder temporary(destination.parent_path(), destination.filename().string());
  const auto shards = into_shards(weights, options.dtype, options.shard_bytes);
  Hashes hashes;
  Json index = {{"metadata", {{"total_size", report.bytes}, {"total_parameters", report.values}}}, {"weight_map", Json::object()}};
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name =
        shards.size() == 1 ? "model.safetensors" : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    write_shard(temporary.path() / name, shards[i], weights, options.dtype, hashes);
    report.files.push_back(name);
    for (const StoredTensor* tensor : shards[i]) index["weight_map"][tensor->name] = name;
  }
  if (shards.size() > 1) write_text(temporary.path(), kIndexName, index.dump(2) + "\n", report);
  write_text(temporary.path(), "config.json", options.config_json, report);
  copy_side_files(temporary.path(), options, report);
  verify(temporary.path(), weights, options.dtype, hashes);
  temporary.publish(destination.filename().string());
  return report;
}

}  // namespace trine
