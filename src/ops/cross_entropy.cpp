#include "ops/cross_entropy.h"

#include <torch/torch.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "ops/cross_entropy_cpu.h"
#include "ops/tensor_values.h"

namespace trine {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Σ of the token losses of `logits_tv`. With `write_gradient` the logits become scale · d(sum)/d(logits).
double softmax_loss_cpu(at::Tensor& logits_tv, const at::Tensor& labels_t, double scale, bool write_gradient) {
  const int64_t num_tokens = logits_tv.size(0), vocab = logits_tv.size(1);
  const auto labels = labels_t.accessor<int64_t, 1>();
  std::vector<double> losses(static_cast<size_t>(num_tokens));
  with_value_type(logits_tv, [&](auto value) {
    auto* logits = writable_values_of<decltype(value)>(logits_tv);
    parallel_items(num_tokens, vocab, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        auto* row = logits + t * vocab;
        if (labels[t] == kIgnoreIndex) {
          if (write_gradient) std::memset(row, 0, static_cast<size_t>(vocab) * sizeof(*row));
          continue;
        }
        TORCH_CHECK_INDEX(labels[t] >= 0 && labels[t] < vocab, "label ", labels[t], " is outside the vocabulary of ", vocab);
        losses[static_cast<size_t>(t)] =
            cross_entropy_row_cpu(row, vocab, labels[t], static_cast<float>(scale), write_gradient, instruction_set());
      }
    });
  });
  return std::accumulate(losses.begin(), losses.end(), 0.0);  // in token order, whatever thread computed which
}

// The same with plain tensor operations.
double softmax_loss_reference(at::Tensor& logits_tv, const at::Tensor& labels_t, double scale, bool write_gradient) {
  const at::ScalarType wide = logits_tv.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor valid = labels_t.ne(kIgnoreIndex);
  const at::Tensor rows = labels_t.masked_fill(labels_t.eq(kIgnoreIndex), 0).unsqueeze(1);
  TORCH_CHECK_INDEX(rows.numel() == 0 || (rows.min().item<int64_t>() >= 0 && rows.max().item<int64_t>() < logits_tv.size(1)),
                    "a label is outside the vocabulary of ", logits_tv.size(1));
  at::Tensor log_probs_tv = at::log_softmax(logits_tv, -1, wide);
  const double loss = -(log_probs_tv.gather(1, rows).squeeze(1) * valid).sum().item<double>();
  if (write_gradient) {
    // d loss / d logits = softmax − one_hot(label) for valid tokens, 0 for others.
    const at::Tensor weights_t1 = valid.to(wide).mul_(scale).unsqueeze(1);
    at::Tensor dlogits_tv = log_probs_tv.exp_().mul_(weights_t1);
    dlogits_tv.scatter_add_(1, rows, -weights_t1);
    logits_tv.copy_(dlogits_tv);
  }
  return loss;
}

// Returns the scaled loss; fills dx_th (if defined) and adds to `sink` (if not null).
at::Tensor loss_by_chunks(const at::Tensor& x_th, const at::Tensor& weight_vh, const at::Tensor& labels_t, double scale,
                          const at::Tensor& dx_th, GradientSink* sink, bool fused, int64_t most_logits) {
  const bool has_kernel = fused && x_th.is_cpu() && has_kernel_type(x_th);
  double loss = 0;
  for_each_chunk(x_th.size(0), weight_vh.size(0), most_logits, [&](int64_t begin, int64_t size) {
    const at::Tensor x = x_th.narrow(0, begin, size), labels = labels_t.narrow(0, begin, size);
    at::Tensor logits_tv = at::linear(x, weight_vh);
    const bool write_gradient = dx_th.defined();
    loss += (has_kernel ? softmax_loss_cpu : softmax_loss_reference)(logits_tv, labels, scale, write_gradient);
    if (!write_gradient) return;
    at::Tensor dx = dx_th.narrow(0, begin, size);
    at::mm_out(dx, logits_tv, weight_vh);
    sink->add_product(logits_tv.t(), x);
  });
  return at::scalar_tensor(loss * scale, x_th.options().dtype(wide_type(x_th)));
}

struct LinearCrossEntropy : torch::autograd::Function<LinearCrossEntropy> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& labels, double scale,
                            int64_t sink, bool fused, int64_t most_logits) {
    at::Tensor dx = at::empty_like(x);
    const at::Tensor loss = loss_by_chunks(x, weight, labels, scale, dx, reinterpret_cast<GradientSink*>(sink), fused, most_logits);
    ctx->save_for_backward({dx});
    return loss;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const at::Tensor dx = ctx->get_saved_variables()[0];
    // The weight's gradient is in the sink already, so the loss can only be the end of the graph.
    TORCH_CHECK(grads[0].item<double>() == 1.0, "linear_cross_entropy: the gradient of its result must be 1, use `scale`");
    return {dx, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor linear_cross_entropy(const at::Tensor& x_th, const at::Tensor& weight_vh, const at::Tensor& labels_t, double scale,
                                GradientSink* sink, Implementation implementation, int64_t most_logits) {
  const bool fused = implementation == Implementation::kFused;
  if (!at::GradMode::is_enabled()) return loss_by_chunks(x_th, weight_vh, labels_t, scale, at::Tensor(), nullptr, fused, most_logits);
  TORCH_CHECK(sink, "linear_cross_entropy: recording gradients needs a sink for the weight's");
  return LinearCrossEntropy::apply(x_th, weight_vh, labels_t, scale, reinterpret_cast<int64_t>(sink), fused, most_logits);
}

}  // namespace trine
