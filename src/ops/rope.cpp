#include "ops/rope.h"

#include <torch/torch.h>

#include <algorithm>

#include "base/errors.h"

namespace trine {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// [B, S, D/2] tables get a head dimension; [S, D/2] ones broadcast as they are.
at::Tensor over_heads(const at::Tensor& table) { return table.dim() == 3 ? table.unsqueeze(1) : table; }

at::Tensor rotate(const at::Tensor& x_bhsd, const at::Tensor& cos, const at::Tensor& sin, bool backwards) {
  const bool wide = x_bhsd.scalar_type() == at::kDouble;
  const at::Tensor x = wide ? x_bhsd : x_bhsd.to(at::kFloat);
  const auto halves = x.chunk(2, -1);
  const at::Tensor c = over_heads(cos), s = over_heads(sin);
  const at::Tensor first = backwards ? halves[0] * c + halves[1] * s : halves[0] * c - halves[1] * s;
  const at::Tensor second = backwards ? halves[1] * c - halves[0] * s : halves[1] * c + halves[0] * s;
  return at::cat({first, second}, -1).to(x_bhsd.scalar_type());
}

struct Rope : torch::autograd::Function<Rope> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
    ctx->save_for_backward({cos, sin});
    return rotate(x, cos, sin, /*backwards=*/false);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    return {rotate(grads[0], saved[0], saved[1], /*backwards=*/true), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

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

at::Tensor rope(const at::Tensor& x_bhsd, const at::Tensor& cos, const at::Tensor& sin) { return Rope::apply(x_bhsd, cos, sin); }

}  // namespace trine
