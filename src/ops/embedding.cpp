#include "ops/embedding.h"

#include <torch/torch.h>

namespace trine {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct EmbeddingIntoSink : torch::autograd::Function<EmbeddingIntoSink> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& weight, const at::Tensor& ids, int64_t sink) {
    ctx->save_for_backward({ids});
    ctx->saved_data["sink"] = sink;
    return at::embedding(weight, ids);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const at::Tensor ids = ctx->get_saved_variables()[0];
    auto* sink = reinterpret_cast<GradientSink*>(ctx->saved_data["sink"].toInt());
    sink->add_rows(ids.reshape({-1}), grads[0].reshape({-1, grads[0].size(-1)}));
    return {at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor embedding(const at::Tensor& ids, const at::Tensor& weight, GradientSink* sink) {
  if (!sink || !at::GradMode::is_enabled()) return at::embedding(weight, ids);
  return EmbeddingIntoSink::apply(weight, ids, reinterpret_cast<int64_t>(sink));
}

}  // namespace trine
