// The registered, pure form of linear_cross_entropy (ops/cross_entropy.h): forward keeps one number a token, backward forms the logits of
// each chunk again.
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <cstring>

#include "ops/cross_entropy.h"
#include "ops/cross_entropy_cpu.h"
#include "ops/tensor_values.h"

namespace trine {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Pair = std::tuple<at::Tensor, at::Tensor>;
using T = const at::Tensor&;

void check(T x_th, T weight_vh, T labels_t) {
  TORCH_CHECK(x_th.dim() == 2 && weight_vh.dim() == 2 && x_th.sym_size(1) == weight_vh.sym_size(1) && x_th.is_floating_point() &&
                  x_th.scalar_type() == weight_vh.scalar_type(),
              "linear_cross_entropy: floating-point x [T, H] and weight [V, H] of one dtype expected, found ", x_th.scalar_type(), " ",
              x_th.sym_sizes(), " and ", weight_vh.scalar_type(), " ", weight_vh.sym_sizes());
  TORCH_CHECK(labels_t.dim() == 1 && labels_t.sym_size(0) == x_th.sym_size(0) && labels_t.scalar_type() == at::kLong,
              "linear_cross_entropy: int64 labels [", x_th.sym_size(0), "] expected, found ", labels_t.scalar_type(), " ",
              labels_t.sym_sizes());
}

// losses and lse of a chunk's logits; 0 for tokens without a label.
void chunk_losses_cpu(T logits_tv, T labels_t, int64_t ignore_index, const at::Tensor& losses_t, const at::Tensor& lse_t) {
  const int64_t vocab = logits_tv.size(1);
  const int64_t* labels = values_of<int64_t>(labels_t);
  auto *losses = writable_values_of<float>(losses_t), *lse = writable_values_of<float>(lse_t);
  with_value_type(logits_tv, [&](auto value) {
    const auto* logits = values_of<decltype(value)>(logits_tv);
    parallel_items(logits_tv.size(0), vocab, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        losses[t] = lse[t] = 0;
        if (labels[t] == ignore_index) continue;
        TORCH_CHECK_INDEX(labels[t] >= 0 && labels[t] < vocab, "label ", labels[t], " is outside the vocabulary of ", vocab);
        const double wide_lse = log_sum_exp_row_cpu(logits + t * vocab, vocab, instruction_set());
        lse[t] = static_cast<float>(wide_lse);
        losses[t] = static_cast<float>(wide_lse - static_cast<double>(load(logits[t * vocab + labels[t]])));
      }
    });
  });
}
void chunk_losses_reference(T logits_tv, T labels_t, int64_t ignore_index, const at::Tensor& losses_t, const at::Tensor& lse_t) {
  const at::Tensor valid = labels_t.ne(ignore_index), wide = widen(logits_tv);
  const at::Tensor rows = labels_t.masked_fill(labels_t.eq(ignore_index), 0).unsqueeze(1);
  const at::Tensor lse = at::logsumexp(wide, -1);
  lse_t.copy_(lse.masked_fill(~valid, 0));
  losses_t.copy_((lse - wide.gather(1, rows).squeeze(1)).masked_fill(~valid, 0));
}

// A chunk's logits become their gradient, the loss of token t having the gradient grad[t].
void chunk_gradient_cpu(at::Tensor& logits_tv, T labels_t, int64_t ignore_index, T grad_t, T lse_t) {
  const int64_t vocab = logits_tv.size(1);
  const int64_t* labels = values_of<int64_t>(labels_t);
  const auto *grad = values_of<float>(grad_t), *lse = values_of<float>(lse_t);
  with_value_type(logits_tv, [&](auto value) {
    auto* logits = writable_values_of<decltype(value)>(logits_tv);
    parallel_items(logits_tv.size(0), vocab, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        auto* row = logits + t * vocab;
        if (labels[t] == ignore_index) {
          std::memset(row, 0, static_cast<size_t>(vocab) * sizeof(*row));
        } else {
          cross_entropy_gradient_row_cpu(row, vocab, labels[t], lse[t], grad[t], instruction_set());
        }
      }
    });
  });
}
void chunk_gradient_reference(at::Tensor& logits_tv, T labels_t, int64_t ignore_index, T grad_t, T lse_t) {
  const at::Tensor ignored = labels_t.eq(ignore_index), rows = labels_t.masked_fill(ignored, 0).unsqueeze(1);
  const at::Tensor weights_t1 = grad_t.masked_fill(ignored, 0).unsqueeze(1);
  at::Tensor dlogits_tv = (widen(logits_tv) - lse_t.unsqueeze(1)).exp_().mul_(weights_t1);
  dlogits_tv.scatter_add_(1, rows, -weights_t1);
  logits_tv.copy_(dlogits_tv.masked_fill_(ignored.unsqueeze(1), 0));
}

template <bool kKernel>
Pair forward(T x_th, T weight_vh, T labels_t, int64_t ignore_index) {
  check(x_th, weight_vh, labels_t);
  const auto chunk_losses = kKernel && has_kernel_type(x_th) ? chunk_losses_cpu : chunk_losses_reference;
  const at::Tensor labels = labels_t.contiguous();
  at::Tensor losses = at::empty(labels.sizes(), x_th.options().dtype(wide_type(x_th))), lse = at::empty_like(losses);
  for_each_chunk(x_th.size(0), weight_vh.size(0), kMostLogits, [&](int64_t begin, int64_t size) {
    const auto cut = [&](const at::Tensor& tensor) { return tensor.narrow(0, begin, size); };
    chunk_losses(at::linear(cut(x_th), weight_vh), cut(labels), ignore_index, cut(losses), cut(lse));
  });
  return {losses, lse};
}

template <bool kKernel>
Pair backward(T grad_t, T x_th, T weight_vh, T labels_t, T lse_t, int64_t ignore_index) {
  check(x_th, weight_vh, labels_t);
  const auto chunk_gradient = kKernel && has_kernel_type(x_th) ? chunk_gradient_cpu : chunk_gradient_reference;
  const at::Tensor labels = labels_t.contiguous(), grad = grad_t.to(wide_type(x_th)).contiguous(), lse = lse_t.contiguous();
  at::Tensor dx = at::empty(x_th.sizes(), x_th.options());
  at::Tensor dweight = at::zeros(weight_vh.sizes(), weight_vh.options().dtype(wide_type(x_th)));
  for_each_chunk(x_th.size(0), weight_vh.size(0), kMostLogits, [&](int64_t begin, int64_t size) {
    const auto cut = [&](const at::Tensor& tensor) { return tensor.narrow(0, begin, size); };
    at::Tensor logits_tv = at::linear(cut(x_th), weight_vh), dx_chunk = cut(dx);
    chunk_gradient(logits_tv, cut(labels), ignore_index, cut(grad), cut(lse));
    at::mm_out(dx_chunk, logits_tv, weight_vh);
    if (dweight.scalar_type() == x_th.scalar_type()) {
      dweight.addmm_(logits_tv.t(), cut(x_th));
    } else {
      dweight.add_(at::mm(logits_tv.t(), cut(x_th)));
    }
  });
  return {dx, dweight};
}

Pair forward_meta(T x_th, T weight_vh, T labels_t, int64_t) {
  check(x_th, weight_vh, labels_t);
  const auto options = x_th.options().dtype(wide_type(x_th));
  return {at::empty_symint(labels_t.sym_sizes(), options), at::empty_symint(labels_t.sym_sizes(), options)};
}
Pair backward_meta(T, T x_th, T weight_vh, T, T, int64_t) {
  return {at::empty_symint(x_th.sym_sizes(), x_th.options()),
          at::empty_symint(weight_vh.sym_sizes(), weight_vh.options().dtype(wide_type(x_th)))};
}

Pair call_forward(T x_th, T weight_vh, T labels_t, int64_t ignore_index) {
  static const auto op = find_op<Pair(T, T, T, int64_t)>("trine::linear_cross_entropy_forward");
  return op.call(x_th, weight_vh, labels_t, ignore_index);
}
Pair call_backward(T grad_t, T x_th, T weight_vh, T labels_t, T lse_t, int64_t ignore_index) {
  static const auto op = find_op<Pair(T, T, T, T, T, int64_t)>("trine::linear_cross_entropy_backward");
  return op.call(grad_t, x_th, weight_vh, labels_t, lse_t, ignore_index);
}

// How many labels there are, at least 1: a mean over none is then 0 with a gradient of 0 (case E3).
at::Tensor valid_count(T labels_t, int64_t ignore_index) { return labels_t.ne(ignore_index).sum().clamp_min(1); }

at::Tensor reduced(T losses_t, T labels_t, int64_t ignore_index, std::string_view reduction) {
  if (reduction == "none") return losses_t;
  if (reduction == "sum") return losses_t.sum();
  TORCH_CHECK(reduction == "mean", "linear_cross_entropy: reduction \"mean\", \"sum\" or \"none\" expected, found \"", reduction, "\"");
  return losses_t.sum() / valid_count(labels_t, ignore_index);
}

at::Tensor without_autograd(T x_th, T weight_vh, T labels_t, int64_t ignore_index, std::string_view reduction) {
  return reduced(std::get<0>(call_forward(x_th, weight_vh, labels_t, ignore_index)), labels_t, ignore_index, reduction);
}

struct PureLinearCrossEntropy : torch::autograd::Function<PureLinearCrossEntropy> {
  static at::Tensor forward(AutogradContext* ctx, T x_th, T weight_vh, T labels_t, int64_t ignore_index, std::string reduction) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const auto [losses, lse] = call_forward(x_th, weight_vh, labels_t, ignore_index);
    ctx->save_for_backward({x_th, weight_vh, labels_t, lse});
    ctx->saved_data["ignore_index"] = ignore_index;
    ctx->saved_data["reduction"] = reduction;
    return reduced(losses, labels_t, ignore_index, reduction);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &x_th = saved[0], &weight_vh = saved[1], &labels_t = saved[2], &lse_t = saved[3];
    const int64_t ignore_index = ctx->saved_data["ignore_index"].toInt();
    const std::string reduction = ctx->saved_data["reduction"].toStringRef();
    at::Tensor grad = reduction == "mean" ? grads[0] / valid_count(labels_t, ignore_index) : grads[0];
    if (reduction != "none") grad = grad.expand_symint(labels_t.sym_sizes());
    const auto [dx, dweight] = call_backward(grad, x_th, weight_vh, labels_t, lse_t, ignore_index);
    return {dx, dweight.to(weight_vh.scalar_type()), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

TORCH_LIBRARY_FRAGMENT(trine, m) {
  m.def("linear_cross_entropy(Tensor x, Tensor weight, Tensor labels, int ignore_index=-100, str reduction=\"mean\") -> Tensor");
  m.def("linear_cross_entropy_forward(Tensor x, Tensor weight, Tensor labels, int ignore_index) -> (Tensor losses, Tensor lse)");
  m.def("linear_cross_entropy_backward(Tensor grad, Tensor x, Tensor weight, Tensor labels, Tensor lse, int ignore_index)"
        " -> (Tensor dx, Tensor dweight)");
}
TORCH_LIBRARY_IMPL(trine, Autograd, m) {
  m.impl("linear_cross_entropy", [](T x_th, T weight_vh, T labels_t, int64_t ignore_index, std::string_view reduction) {
    return PureLinearCrossEntropy::apply(x_th, weight_vh, labels_t, ignore_index, std::string(reduction));
  });
  m.impl("linear_cross_entropy_forward", torch::autograd::autogradNotImplementedFallback());
  m.impl("linear_cross_entropy_backward", torch::autograd::autogradNotImplementedFallback());
}
TORCH_LIBRARY_IMPL(trine, CompositeExplicitAutograd, m) {
  m.impl("linear_cross_entropy", without_autograd);
  m.impl("linear_cross_entropy_forward", forward<false>);
  m.impl("linear_cross_entropy_backward", backward<false>);
}
TORCH_LIBRARY_IMPL(trine, CPU, m) {
  m.impl("linear_cross_entropy_forward", forward<true>);
  m.impl("linear_cross_entropy_backward", backward<true>);
}
TORCH_LIBRARY_IMPL(trine, Meta, m) {
  m.impl("linear_cross_entropy_forward", forward_meta);
  m.impl("linear_cross_entropy_backward", backward_meta);
}

}  // namespace trine
