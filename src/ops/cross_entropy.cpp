#include "ops/cross_entropy.h"

#include <torch/torch.h>

#include <algorithm>

namespace trine {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Logits of a chunk exist once in x's dtype and once in fp32: at most 6 · 2^25 bytes = 192 MiB.
constexpr int64_t kMostLogits = int64_t{1} << 25;

// Returns the scaled loss; fills dx_th (if defined) and adds to `sink` (if not null).
at::Tensor loss_by_chunks(const at::Tensor& x_th, const at::Tensor& weight_vh, const at::Tensor& labels_t, double scale,
                          const at::Tensor& dx_th, GradientSink* sink) {
  const int64_t num_tokens = x_th.size(0), vocab = weight_vh.size(0);
  const int64_t num_chunks = std::max<int64_t>(1, (num_tokens * vocab + kMostLogits - 1) / kMostLogits);
  const int64_t chunk = (num_tokens + num_chunks - 1) / num_chunks;
  const at::ScalarType wide = x_th.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  at::Tensor loss = at::zeros({}, x_th.options().dtype(wide));
  for (int64_t begin = 0; begin < num_tokens; begin += chunk) {
    const int64_t size = std::min(chunk, num_tokens - begin);
    const at::Tensor x = x_th.narrow(0, begin, size), labels = labels_t.narrow(0, begin, size);
    at::Tensor logits_tv = at::linear(x, weight_vh);
    const at::Tensor valid = labels.ne(kIgnoreIndex);
    const at::Tensor rows = labels.clamp_min(0).unsqueeze(1);
    at::Tensor log_probs_tv = at::log_softmax(logits_tv, -1, wide);
    loss -= (log_probs_tv.gather(1, rows).squeeze(1) * valid).sum() * scale;
    if (!dx_th.defined()) continue;
    // d loss / d logits = (softmax − one_hot(label)) · scale for valid tokens, 0 for others.
    const at::Tensor weights_t1 = valid.to(wide).mul_(scale).unsqueeze(1);
    at::Tensor dlogits_tv = log_probs_tv.exp_().mul_(weights_t1);
    dlogits_tv.scatter_add_(1, rows, -weights_t1);
    logits_tv.copy_(dlogits_tv);  // into x's dtype, for the two products
    at::Tensor dx = dx_th.narrow(0, begin, size);
    at::mm_out(dx, logits_tv, weight_vh);
    sink->add_product(logits_tv.t(), x);
  }
  return loss;
}

struct LinearCrossEntropy : torch::autograd::Function<LinearCrossEntropy> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& labels, double scale,
                            int64_t sink) {
    at::Tensor dx = at::empty_like(x);
    const at::Tensor loss = loss_by_chunks(x, weight, labels, scale, dx, reinterpret_cast<GradientSink*>(sink));
    ctx->save_for_backward({dx});
    return loss;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const at::Tensor dx = ctx->get_saved_variables()[0];
    // The weight's gradient is in the sink already, so the loss can only be the end of the graph.
    TORCH_CHECK(grads[0].item<double>() == 1.0, "linear_cross_entropy: the gradient of its result must be 1, use `scale`");
    return {dx, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor linear_cross_entropy(const at::Tensor& x_th, const at::Tensor& weight_vh, const at::Tensor& labels_t, double scale,
                                GradientSink* sink) {
  if (!at::GradMode::is_enabled()) return loss_by_chunks(x_th, weight_vh, labels_t, scale, at::Tensor(), nullptr);
  TORCH_CHECK(sink, "linear_cross_entropy: recording gradients needs a sink for the weight's");
  return LinearCrossEntropy::apply(x_th, weight_vh, labels_t, scale, reinterpret_cast<int64_t>(sink));
}

}  // namespace trine
