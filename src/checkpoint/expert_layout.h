// Experts that a file stores fused, shown under the names that published files give them.
//
// What Transformers 5 holds in memory, and some exports write, is two tensors for all experts of a layer; everything else in Trine knows
// three matrices per expert: `mlp.experts.N.gate_proj.weight` and `up_proj` [I, H], `down_proj` [H, I] (E experts of intermediate size I,
// hidden size H). The fused tensors come in two layouts, and only their shapes tell which:
//
//                mlp.experts.gate_up_proj   mlp.experts.down_proj
//   plain        [E, 2I, H]                 [E, H, I]              an expert's matrix is a stretch of the tensor, and is read in place
//   transposed   [E, H, 2I]                 [E, I, H]              (Qwen3-VL's files) elements are put into order when they are read
//
// In both, the gate is the first half. Layers may differ from each other.
#pragma once

#include <memory>
#include <unordered_map>

#include "checkpoint/weight_source.h"

namespace trine {

// A view of another source: in the place of a fused tensor, a tensor per expert and matrix. All others are as they were.
class ExpertWeights : public WeightSource {
 public:
  // Where the values of a tensor lie.
  struct Place {
    const StoredTensor* stored = nullptr;
    int64_t base = 0;    // the element of `stored` that is the tensor's first
    int64_t stride = 0;  // 0: the rest follow it. Else the tensor is stored transposed, and its column c begins at base + c * stride
  };

  // `places`: beside `tensors`, into the tensors of `stored`. split_fused_experts() makes them.
  ExpertWeights(std::unique_ptr<WeightSource> stored, std::vector<StoredTensor> tensors, std::vector<Place> places,
                const std::vector<std::string>& notes);

  std::string description() const override { return stored_->description(); }
  const std::vector<StoredTensor>& tensors() const override { return tensors_; }
  const std::vector<std::string>& notes() const override { return notes_; }
  const WeightSource& stored() const override { return stored_->stored(); }
  void visit(const StoredTensor& tensor, int64_t first, int64_t last, const Take& take) const override;

 private:
  std::unique_ptr<WeightSource> stored_;
  std::vector<StoredTensor> tensors_;
  std::vector<Place> places_;
  std::unordered_map<std::string_view, const Place*> place_of_;
  std::vector<std::string> notes_;
};

// `source` itself if no layer of it has fused experts, else a view with a note that names the layout. The layout follows from the shapes
// alone. Throws UserError naming the tensors, and then leaves `source` as it was, if a layer has experts in both forms or one fused tensor
// of the two, or if its shapes fit no layout, could be either, or contradict the layer's router and norms.
std::unique_ptr<WeightSource> split_fused_experts(std::unique_ptr<WeightSource>&& source);

}  // namespace trine
