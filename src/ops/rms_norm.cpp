#include "ops/rms_norm.h"

#include <torch/torch.h>

namespace trine {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// fp32 for every narrower dtype; float64 stays, for gradient checks.
at::Tensor widen(const at::Tensor& x) { return x.scalar_type() == at::kDouble ? x : x.to(at::kFloat); }

struct RmsNorm : torch::autograd::Function<RmsNorm> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight, double eps, int64_t sink) {
    const at::Tensor wide = widen(x);
    const at::Tensor rstd = wide.square().mean(-1, /*keepdim=*/true).add_(eps).rsqrt_();
    ctx->save_for_backward({x, weight, rstd});
    ctx->saved_data["sink"] = sink;
    return (wide * rstd).mul_(widen(weight)).to(x.scalar_type());
  }
  // With x̂ = x·rstd and g = dy·w:  dx = rstd·(g − x̂·mean(g·x̂)),  dw = Σ_rows dy·x̂.
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &rstd = saved[2];
    auto* sink = reinterpret_cast<GradientSink*>(ctx->saved_data["sink"].toInt());
    const at::Tensor dy = widen(grads[0]);
    const at::Tensor x_hat = widen(x) * rstd;
    at::Tensor dweight = (dy * x_hat).reshape({-1, x.size(-1)}).sum(0);
    if (sink) {
      sink->add(dweight);
      dweight = at::Tensor();
    } else {
      dweight = dweight.to(weight.scalar_type());
    }
    at::Tensor dx;
    if (ctx->needs_input_grad(0)) {
      const at::Tensor g = dy * widen(weight);
      dx = (g - x_hat * (g * x_hat).mean(-1, /*keepdim=*/true)).mul_(rstd).to(x.scalar_type());
    }
    return {dx, dweight, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps, GradientSink* sink) {
  return RmsNorm::apply(x, weight, eps, reinterpret_cast<int64_t>(sink));
}

}  // namespace trine
