// The weights of a Hugging Face model folder: one safetensors file, or shards with an index.
#pragma once

#include <map>
#include <memory>

#include "checkpoint/safetensors.h"
#include "checkpoint/weight_source.h"

namespace trine {

class HfWeights : public WeightSource {
 public:
  // `path`: a folder, or one safetensors file. With an index, the index decides: every shard it names must exist and hold exactly
  // the keys listed for it; other safetensors files are ignored with a note. Without one, all files' keys must differ. Links work.
  // Throws UserError naming files and keys.
  explicit HfWeights(const std::filesystem::path& path);

  std::string description() const override;
  const std::vector<StoredTensor>& tensors() const override { return tensors_; }
  const std::vector<std::string>& notes() const override { return notes_; }
  void visit(const StoredTensor& tensor, int64_t first, int64_t last, const Take& take) const override;

  std::span<const std::byte> bytes(const StoredTensor& tensor) const;  // the whole tensor
  const std::vector<std::unique_ptr<SafetensorsFile>>& files() const { return files_; }
  bool has_index() const { return has_index_; }

 private:
  void open_with_index(const std::filesystem::path& folder, const std::filesystem::path& index);
  void open_all(const std::vector<std::filesystem::path>& files);

  std::filesystem::path path_;
  bool has_index_ = false;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::vector<StoredTensor> tensors_;
  std::map<std::string, std::pair<const SafetensorsFile*, const TensorEntry*>, std::less<>> where_;
  std::vector<std::string> notes_;
};

// Whether a folder holds safetensors weights at all; opens nothing.
bool has_hf_weights(const std::filesystem::path& folder);

}  // namespace trine
