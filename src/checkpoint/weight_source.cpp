#include "checkpoint/weight_source.h"

#include "base/errors.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/expert_layout.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/store.h"

namespace trine {

namespace fs = std::filesystem;

const StoredTensor* WeightSource::find(std::string_view name) const {
  for (const StoredTensor& tensor : tensors()) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

std::vector<std::string> WeightSource::names() const {
  std::vector<std::string> names;
  for (const StoredTensor& tensor : tensors()) names.push_back(tensor.name);
  return names;
}

std::unique_ptr<WeightSource> open_weights(const fs::path& path) {
  if (!fs::exists(path)) throw UserError("{} does not exist", path.string());
  if (fs::exists(path / "manifest.json")) return std::make_unique<CheckpointWeights>(path);
  for (const fs::path& folder : {path / "checkpoint", path}) {
    if (checkpoint_steps(folder).empty()) continue;
    auto newest = open_newest_checkpoint(folder, {kMaster});
    if (!newest) throw UserError("{} holds no complete checkpoint", folder.string());
    return std::make_unique<CheckpointWeights>(std::move(*newest));
  }
  return split_fused_experts(std::make_unique<HfWeights>(path));
}

}  // namespace trine
