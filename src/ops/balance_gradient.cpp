#include "ops/balance_gradient.h"

#include <torch/torch.h>

namespace trine {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct BalanceGradient : torch::autograd::Function<BalanceGradient> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& weights, const at::Tensor& probs, const at::Tensor& logits,
                            const BalanceTerms& terms) {
    ctx->save_for_backward({probs, logits});
    // Not through save_for_backward, which would refuse coefficients that have changed since.
    ctx->saved_data["coefficients"] = terms.coefficients_e;
    ctx->saved_data["z_scale"] = terms.z_scale;
    ctx->saved_data["mask"] = terms.mask_t;
    return weights.clone();
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &probs = saved[0], &logits = saved[1];
    const at::Tensor coefficients = ctx->saved_data["coefficients"].toTensor().to(probs.scalar_type());
    const double z_scale = ctx->saved_data["z_scale"].toDouble();
    const auto mask = ctx->saved_data["mask"].toOptional<at::Tensor>();
    const at::Tensor counts_t1 = mask ? mask->to(probs.scalar_type()).unsqueeze(1) : at::ones({probs.size(0), 1}, probs.options());
    const at::Tensor dprobs = counts_t1 * coefficients;
    at::Tensor dlogits;
    if (z_scale != 0) {
      const at::Tensor log_sums_t1 = logits.to(probs.scalar_type()).logsumexp(-1, /*keepdim=*/true);
      dlogits = (log_sums_t1 * counts_t1 * (2 * z_scale) * probs).to(logits.scalar_type());
    }
    return {grads[0], dprobs, dlogits, at::Tensor()};
  }
};

}  // namespace

at::Tensor attach_balance_gradient(const at::Tensor& weights_tk, const at::Tensor& probs_te, const at::Tensor& logits_te,
                                   const BalanceTerms& terms) {
  TORCH_CHECK(probs_te.dim() == 2 && probs_te.sizes() == logits_te.sizes(),
              "attach_balance_gradient: probs and logits [T, E] expected, found ", probs_te.sizes(), " and ", logits_te.sizes());
  TORCH_CHECK(terms.coefficients_e.dim() == 1 && terms.coefficients_e.size(0) == probs_te.size(1),
              "attach_balance_gradient: coefficients of shape [", probs_te.size(1), "] expected, found ", terms.coefficients_e.sizes());
  TORCH_CHECK(!terms.mask_t || (terms.mask_t->dim() == 1 && terms.mask_t->size(0) == probs_te.size(0)),
              "attach_balance_gradient: a mask of shape [", probs_te.size(0), "] expected, found ",
              terms.mask_t ? terms.mask_t->sizes() : at::IntArrayRef());
  return BalanceGradient::apply(weights_tk, probs_te, logits_te, terms);
}

}  // namespace trine
