#include "checkpoint/hf_folder.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/errors.h"
#include "base/format.h"
#include "base/json.h"
#include "checkpoint/key_accounting.h"

namespace trine {

namespace fs = std::filesystem;

namespace {

constexpr const char* kIndexName = "model.safetensors.index.json";

std::vector<fs::path> safetensors_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".safetensors") && !name.starts_with(".")) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// weight_map of an index: key -> file name. File names must be plain, so that an index cannot reach outside its folder.
std::map<std::string, std::string> read_weight_map(const fs::path& index, const Json& json) {
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object()) {
    throw UserError("{}: no \"weight_map\" object in it", index.string());
  }
  std::map<std::string, std::string> map;
  for (const auto& [key, file] : json["weight_map"].items()) {
    if (!file.is_string()) throw UserError("{}: weight_map \"{}\" is not a file name", index.string(), key);
    const std::string name = file.get<std::string>();
    if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos || name.find('\0') != std::string::npos) {
      throw UserError("{}: weight_map \"{}\" names \"{}\", which is not a file of this folder", index.string(), key, name);
    }
    map[key] = name;
  }
  if (map.empty()) throw UserError("{}: its weight_map is empty", index.string());
  return map;
}

// What the index says against what the opened shards hold.
void check_against_index(const fs::path& index, const std::map<std::string, std::string>& map,
                         const std::map<std::string, std::set<std::string>>& shards_of_key) {
  std::vector<std::string> faults;
  for (const auto& [key, shard] : map) {
    const auto found = shards_of_key.find(key);
    if (found == shards_of_key.end()) {
      faults.push_back(fmt::format("{} (listed in {}, in no shard)", key, shard));
    } else if (!found->second.contains(shard)) {
      faults.push_back(fmt::format("{} (listed in {}, found in {})", key, shard, *found->second.begin()));
    } else if (found->second.size() > 1) {
      faults.push_back(fmt::format("{} (in {} shards: {})", key, found->second.size(), fmt::join(found->second, ", ")));
    }
  }
  for (const auto& [key, shards] : shards_of_key) {
    if (!map.contains(key)) faults.push_back(fmt::format("{} (in {}, not listed)", key, *shards.begin()));
  }
  if (!faults.empty()) {
    throw UserError("{}: the index and its shards disagree on {} keys: {}. Download the folder again, or export it anew.", index.string(),
                    faults.size(), first_few(faults));
  }
}

}  // namespace

HfWeights::HfWeights(const fs::path& path) : path_(path) {
  if (fs::is_regular_file(path)) {
    open_all({path});
    return;
  }
  if (!fs::is_directory(path)) throw UserError("{}: no such folder or safetensors file", path.string());
  if (const fs::path index = path / kIndexName; fs::exists(index)) {
    open_with_index(path, index);
    return;
  }
  const std::vector<fs::path> files = safetensors_files(path);
  if (files.empty()) {
    std::vector<std::string> others;
    for (const auto& entry : fs::directory_iterator(path)) {
      const std::string name = entry.path().filename().string();
      if (name.ends_with(".bin") || name.ends_with(".pth") || name.ends_with(".gguf")) others.push_back(name);
    }
    throw UserError("{} holds no .safetensors file{}", path.string(),
                    others.empty()
                        ? ""
                        : fmt::format("; convert {} to safetensors first (Transformers' save_pretrained writes it)", first_few(others)));
  }
  open_all(files);
}

void HfWeights::open_with_index(const fs::path& folder, const fs::path& index) {
  has_index_ = true;
  const Json json = read_json_file(index);
  const auto map = read_weight_map(index, json);
  std::set<std::string> shards;
  for (const auto& [key, shard] : map) shards.insert(shard);
  std::vector<std::string> absent;
  for (const std::string& shard : shards) {
    if (!fs::exists(folder / shard)) absent.push_back(shard);
  }
  if (!absent.empty()) {
    throw UserError("{}: {} of the {} shards that it names are missing: {}. Download them again.", index.string(), absent.size(),
                    shards.size(), first_few(absent));
  }
  for (const fs::path& file : safetensors_files(folder)) {
    if (!shards.contains(file.filename().string())) {
      notes_.push_back(fmt::format("{} is ignored: the index does not name it", file.string()));
    }
  }

  std::map<std::string, std::set<std::string>> shards_of_key;
  uint64_t total = 0;
  for (const std::string& shard : shards) {
    files_.push_back(std::make_unique<SafetensorsFile>(folder / shard));
    for (const TensorEntry& entry : files_.back()->entries()) {
      shards_of_key[entry.name].insert(shard);
      where_[entry.name] = {files_.back().get(), &entry};
      tensors_.push_back({entry.name, entry.dtype, entry.shape, files_.back()->path().string()});
      total += entry.end - entry.begin;
    }
  }
  check_against_index(index, map, shards_of_key);
  if (json.contains("metadata") && json["metadata"].is_object() && json["metadata"].contains("total_size") &&
      json["metadata"]["total_size"].is_number() && json["metadata"]["total_size"].get<double>() != static_cast<double>(total)) {
    notes_.push_back(fmt::format("{}: total_size is {}, the shards hold {} bytes of tensors", index.string(),
                                 json["metadata"]["total_size"].dump(), total));
  }
}

void HfWeights::open_all(const std::vector<fs::path>& files) {
  for (const fs::path& file : files) {
    files_.push_back(std::make_unique<SafetensorsFile>(file));
    for (const TensorEntry& entry : files_.back()->entries()) {
      const auto [place, is_new] = where_.try_emplace(entry.name, files_.back().get(), &entry);
      if (!is_new) {
        throw UserError(
            "tensor \"{}\" is in two files, {} and {}, and there is no {} to decide; remove the file that does not belong to the model",
            entry.name, place->second.first->path().string(), file.string(), kIndexName);
      }
      tensors_.push_back({entry.name, entry.dtype, entry.shape, file.string()});
    }
  }
}

std::string HfWeights::description() const {
  return files_.size() == 1 ? path_.string() : fmt::format("{} ({} files)", path_.string(), files_.size());
}

std::span<const std::byte> HfWeights::bytes(const StoredTensor& tensor) const {
  const auto& [file, entry] = where_.at(tensor.name);
  return file->data(*entry);
}

void HfWeights::visit(const StoredTensor& tensor, int64_t first, int64_t last, const Take& take) const {
  const auto bits = static_cast<uint64_t>(dtype_bits(tensor.dtype));
  const uint64_t begin = static_cast<uint64_t>(first) * bits / 8, end = static_cast<uint64_t>(last) * bits / 8;
  if (last <= first) return;
  const auto piece = bytes(tensor).subspan(begin, end - begin);
  take(first, piece);
  release_mapped_pages(piece);
}

bool has_hf_weights(const fs::path& folder) {
  return fs::is_directory(folder) && (fs::exists(folder / kIndexName) || !safetensors_files(folder).empty());
}

}  // namespace trine
