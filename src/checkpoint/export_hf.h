// Writing a folder that Transformers opens: safetensors with an index, config.json, and the tokenizer's files as the source had them.
#pragma once

#include <torch/torch.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/weight_source.h"

namespace trine {

// Tensors in memory as a weight source. Each is contiguous and is read when it is visited (device tensors in pieces).
class TensorWeights : public WeightSource {
 public:
  explicit TensorWeights(std::vector<std::pair<std::string, at::Tensor>> tensors);

  std::string description() const override { return "memory"; }
  const std::vector<StoredTensor>& tensors() const override { return stored_; }
  const std::vector<std::string>& notes() const override { return notes_; }
  void visit(const StoredTensor& tensor, int64_t first, int64_t last, const Take& take) const override;

 private:
  std::vector<at::Tensor> values_;  // beside stored_
  std::vector<StoredTensor> stored_;
  std::vector<std::string> notes_;
};

struct ExportOptions {
  StoredDtype dtype = StoredDtype::kBF16;   // of every tensor in the export: F32, BF16 or F16
  uint64_t shard_bytes = 5'000'000'000;     // data bytes of a shard at most; a larger tensor has a shard of its own
  std::filesystem::path source_folder;      // where generation_config.json, tokenizer files and templates are copied from; may be empty
  std::string config_json;                  // text of config.json; must say tie_word_embeddings and a dtype that agree with the tensors
  std::map<std::string, std::string> replaced_files;  // side files whose text the caller changed, by name: not copied from the source
};

// The type that `checkpoint.export_dtype` stands for. "source": what most weights of `source_folder` have, else what its config.json
// says, else `otherwise`.
StoredDtype resolve_export_dtype(const std::string& option, const std::filesystem::path& source_folder, StoredDtype otherwise);

struct ExportReport {
  std::filesystem::path folder;
  int64_t tensors = 0, values = 0;
  uint64_t bytes = 0;                   // tensor data
  std::vector<std::string> files;       // names in the folder
  std::vector<std::string> side_files;  // those copied byte for byte
  std::vector<std::string> notes;       // side files that the source lacks
};

// Exports `weights` (without a tied head) to `folder`: written beside it under a temporary name, made durable, reopened, every key,
// shape, type and hash compared, then renamed. An earlier export in `folder` is replaced whole; a folder that holds anything else is
// refused. Weights are converted in pieces; nothing is changed in memory. Throws UserError, RunStopped (disk full).
ExportReport export_hf(const std::filesystem::path& folder, const WeightSource& weights, const ExportOptions& options);

}  // namespace trine
