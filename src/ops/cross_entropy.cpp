#include "ops/cross_entropy.h"

#include <torch/torch.h>

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "ops/cross_entropy_cpu.h"

namespace trine {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Σ of the token losses of `logits_tv`. With `write_gradient` the logits become scale · d(sum)/d(logits).
double softmax_loss_cpu(at::Tensor& logits_tv, const at::Tensor& labels_t, double scale, bool write_gradient) {
  const int64_t num_tokens = logits_tv.size(0), vocab = logits_tv.size(1);
  const auto labels = labels_t.accessor<int64_t, 1>();
  std::vector<double> losses(static_cast<size_t>(num_tokens));
  const auto run = [&](auto* logits) {
    at::parallel_for(0, num_tokens, 1, [&](int64_t begin, int64_t end) {
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
  };
  if (logits_tv.scalar_type() == at::kFloat) {
    run(logits_tv.data_ptr<float>());
  } else {
    run(reinterpret_cast<BFloat16Bits*>(logits_tv.data_ptr<at::BFloat16>()));
  }
  return std::accumulate(losses.begin(), losses.end(), 0.0);  // in token order, whatever thread computed which
}

// The same with plain tensor operations, for other devices and types.
double softmax_loss_reference(at::Tensor& logits_tv, const at::Tensor& labels_t, double scale, bool write_gradient) {
  const at::ScalarType wide = logits_tv.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor valid = labels_t.ne(kIgnoreIndex);
  const at::Tensor rows = labels_t.clamp_min(0).unsqueeze(1);
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
                          const at::Tensor& dx_th, GradientSink* sink, int64_t most_logits) {
  const int64_t num_tokens = x_th.size(0), vocab = weight_vh.size(0);
  const int64_t num_chunks = std::max<int64_t>(1, (num_tokens * vocab + most_logits - 1) / most_logits);
  const int64_t chunk = std::max<int64_t>(1, (num_tokens + num_chunks - 1) / num_chunks);
  const bool on_cpu = x_th.is_cpu() && (x_th.scalar_type() == at::kFloat || x_th.scalar_type() == at::kBFloat16);
  double loss = 0;
  for (int64_t begin = 0; begin < num_tokens; begin += chunk) {
    const int64_t size = std::min(chunk, num_tokens - begin);
    const at::Tensor x = x_th.narrow(0, begin, size), labels = labels_t.narrow(0, begin, size);
    at::Tensor logits_tv = at::linear(x, weight_vh);
    const bool write_gradient = dx_th.defined();
    loss += on_cpu ? softmax_loss_cpu(logits_tv, labels, scale, write_gradient)
                   : softmax_loss_reference(logits_tv, labels, scale, write_gradient);
    if (!write_gradient) continue;
    at::Tensor dx = dx_th.narrow(0, begin, size);
    at::mm_out(dx, logits_tv, weight_vh);
    sink->add_product(logits_tv.t(), x);
  }
  return at::scalar_tensor(loss * scale, x_th.options().dtype(x_th.scalar_type() == at::kDouble ? at::kDouble : at::kFloat));
}

struct LinearCrossEntropy : torch::autograd::Function<LinearCrossEntropy> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& labels, double scale,
                            int64_t sink, int64_t most_logits) {
    at::Tensor dx = at::empty_like(x);
    const at::Tensor loss = loss_by_chunks(x, weight, labels, scale, dx, reinterpret_cast<GradientSink*>(sink), most_logits);
    ctx->save_for_backward({dx});
    return loss;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const at::Tensor dx = ctx->get_saved_variables()[0];
    // The weight's gradient is in the sink already, so the loss can only be the end of the graph.
    TORCH_CHECK(grads[0].item<double>() == 1.0, "linear_cross_entropy: the gradient of its result must be 1, use `scale`");
    return {dx, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor linear_cross_entropy(const at::Tensor& x_th, const at::Tensor& weight_vh, const at::Tensor& labels_t, double scale,
                                GradientSink* sink, int64_t most_logits) {
  if (!at::GradMode::is_enabled()) return loss_by_chunks(x_th, weight_vh, labels_t, scale, at::Tensor(), nullptr, most_logits);
  TORCH_CHECK(sink, "linear_cross_entropy: recording gradients needs a sink for the weight's");
  return LinearCrossEntropy::apply(x_th, weight_vh, labels_t, scale, reinterpret_cast<int64_t>(sink), most_logits);
}

}  // namespace trine
