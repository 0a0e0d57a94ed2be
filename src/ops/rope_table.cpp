#include "ops/rope_table.h"

#include <torch/torch.h>

#include <algorithm>

#include "base/errors.h"

namespace trine {

RopeTable::RopeTable(std::vector<float> inv_freq, double attention_scaling, int64_t max_positions)
    : inv_freq_(torch::tensor(inv_freq, at::kFloat)), attention_scaling_(attention_scaling), max_positions_(max_positions) {}

std::pair<at::Tensor, at::Tensor> RopeTable::rows(int64_t length) {
  if (length > max_positions_) {
    throw UserError("a sequence of {} positions is longer than the model's max_position_embeddings ({}). Use a shorter one, or a model "
                    "with rotary scaling for that length.", length, max_positions_);
  }
  if (!cos_.defined() || cos_.size(0) < length) {
    at::NoGradGuard no_grad;
    constexpr int64_t kLeastRows = 256;
    const int64_t grown = cos_.defined() ? std::max(length, 2 * cos_.size(0)) : std::max(length, kLeastRows);
    const at::Tensor positions = at::arange(std::min(grown, max_positions_), at::TensorOptions(at::kFloat));
    const at::Tensor angles = positions.unsqueeze(1) * inv_freq_.unsqueeze(0);
    cos_ = angles.cos() * attention_scaling_;
    sin_ = angles.sin() * attention_scaling_;
  }
  return {cos_.narrow(0, 0, length), sin_.narrow(0, 0, length)};
}

}  // namespace trine
