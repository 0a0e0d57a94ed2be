// Named weights that lie somewhere: a Hugging Face folder, a Trine checkpoint, or tensors in memory.
//
// Loading, exporting, comparing and checking weights are written once against this.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/stored_dtype.h"

namespace trine {

struct StoredTensor {
  std::string name;
  StoredDtype dtype = StoredDtype::kF32;
  std::vector<int64_t> shape;
  std::string where;  // the file it lies in, for messages
};

class WeightSource {
 public:
  virtual ~WeightSource() = default;

  virtual std::string description() const = 0;                      // "assets/smollm2 (1 file)"
  virtual const std::vector<StoredTensor>& tensors() const = 0;
  virtual const std::vector<std::string>& notes() const = 0;        // what a user should know: files ignored, sizes that disagree

  // Calls `take(first, bytes)` with pieces that cover elements [first, last) of `tensor` in ascending order. `bytes` is in the stored
  // type, perhaps unaligned, and valid during the call. May be called from several threads at once.
  using Take = std::function<void(int64_t first, std::span<const std::byte> bytes)>;
  virtual void visit(const StoredTensor& tensor, int64_t first, int64_t last, const Take& take) const = 0;

  // What lies in the files, if this shows it in another form (expert_layout.h); else this.
  virtual const WeightSource& stored() const { return *this; }

  const StoredTensor* find(std::string_view name) const;  // null if absent
  std::vector<std::string> names() const;
};

// Opens what `path` holds: a safetensors file, a Hugging Face folder, a checkpoint (`.../step-N`), or a run folder (its newest complete
// checkpoint). Experts that files store fused are shown one by one. Throws UserError if it is none of these.
std::unique_ptr<WeightSource> open_weights(const std::filesystem::path& path);

}  // namespace trine
