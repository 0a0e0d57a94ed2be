// From the tensors of a rotation to what its CPU kernels take.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "ops/rope.h"
#include "ops/rope_cpu.h"
#include "ops/tensor_values.h"

namespace trine {

inline int64_t rope_length(const at::Tensor& x, RopeLayout layout) { return x.size(layout == RopeLayout::kBhsd ? 2 : 1); }
inline int64_t rope_heads(const at::Tensor& x, RopeLayout layout) { return x.size(layout == RopeLayout::kBhsd ? 1 : 2); }

// x with the values of each head side by side; a copy only if they are not.
inline at::Tensor with_contiguous_heads(const at::Tensor& x) { return x.stride(-1) == 1 || x.size(-1) <= 1 ? x : x.contiguous(); }

inline HeadStrides head_strides(const at::Tensor& x, RopeLayout layout) {
  return layout == RopeLayout::kBhsd ? HeadStrides{.batch = x.stride(0), .position = x.stride(2), .head = x.stride(1)}
                                     : HeadStrides{.batch = x.stride(0), .position = x.stride(1), .head = x.stride(2)};
}

// Holds the tables as the kernel reads them. Throws c10::IndexError for a position outside them.
class RopeTensors {
 public:
  RopeTensors(const at::Tensor& cos, const at::Tensor& sin, const std::optional<at::Tensor>& positions, int64_t length)
      : cos_(cos.to(at::kFloat).contiguous()), sin_(sin.to(at::kFloat).contiguous()) {
    rows_ = {.cos = values_of<float>(cos_), .sin = values_of<float>(sin_), .one_per_token = cos.dim() == 3, .length = length,
             .half = cos.size(-1)};
    if (!positions) return;
    positions_ = positions->contiguous();
    rows_.positions = values_of<int64_t>(positions_);
    for (int64_t t = 0; t < positions_.numel(); ++t) {
      TORCH_CHECK_INDEX(rows_.positions[t] >= 0 && rows_.positions[t] < cos_.size(0), "rope: position ", rows_.positions[t],
                        " is outside the table of ", cos_.size(0), " rows");
    }
  }
  const RopeRows& rows() const { return rows_; }

 private:
  at::Tensor cos_, sin_, positions_;
  RopeRows rows_;
};

}  // namespace trine
