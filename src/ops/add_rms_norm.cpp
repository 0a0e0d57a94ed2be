#include "ops/add_rms_norm.h"

#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>
#include <torch/torch.h>

#include "ops/rms_norm.h"
#include "ops/rms_norm_cpu.h"
#include "ops/rms_norm_rows.h"
#include "ops/tensor_values.h"

namespace trine {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Pair = std::tuple<at::Tensor, at::Tensor>;
using Triple = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

void check(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight) {
  check_norm_weight("add_rms_norm", x, weight);
  TORCH_CHECK(x.sym_sizes() == residual.sym_sizes() && x.scalar_type() == residual.scalar_type(),
              "add_rms_norm: residual like x expected, ", x.scalar_type(), " ", x.sym_sizes(), ", found ", residual.scalar_type(), " ",
              residual.sym_sizes());
}

Triple forward_reference(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, double eps) {
  check(x, residual, weight);
  const at::Tensor sum = at::add(x, residual).contiguous();
  const auto [y, rstd] = wide_rms_norm(widen(sum), weight, eps);
  return {sum, y.to(x.scalar_type()), rstd};
}

Pair backward_reference(const at::Tensor& dsum, const at::Tensor& dy, const at::Tensor& sum, const at::Tensor& weight,
                        const at::Tensor& rstd) {
  const auto [through_norm, dweight] = wide_rms_norm_backward(dy.to(wide_type(sum)), widen(sum), weight, rstd);
  return {(through_norm + dsum).to(sum.scalar_type()).contiguous(), dweight};
}

Triple forward_cpu(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, double eps) {
  if (!has_kernel_type(x)) return forward_reference(x, residual, weight, eps);
  check(x, residual, weight);
  const at::Tensor x_rn = as_rows(x), residual_rn = as_rows(residual), weight_n = weight.to(at::kFloat).contiguous();
  const int64_t n = x_rn.size(1);
  at::Tensor sum = at::empty(x.sizes(), x.options()), y = at::empty(x.sizes(), x.options());
  at::Tensor rstd = at::empty(x.sizes().slice(0, x.dim() - 1), x.options().dtype(at::kFloat));
  with_value_type(x, [&](auto value) {
    using Value = decltype(value);
    parallel_items(x_rn.size(0), n, [&](int64_t begin, int64_t end) {
      add_rms_norm_rows_cpu(values_of<Value>(x_rn) + begin * x_rn.stride(0), x_rn.stride(0),
                            values_of<Value>(residual_rn) + begin * residual_rn.stride(0), residual_rn.stride(0),
                            values_of<float>(weight_n), writable_values_of<Value>(sum) + begin * n,
                            writable_values_of<Value>(y) + begin * n, writable_values_of<float>(rstd) + begin, end - begin, n,
                            static_cast<float>(eps), instruction_set());
    });
  });
  return {sum, y, rstd};
}

Pair backward_cpu(const at::Tensor& dsum, const at::Tensor& dy, const at::Tensor& sum, const at::Tensor& weight, const at::Tensor& rstd) {
  if (!has_kernel_type(sum)) return backward_reference(dsum, dy, sum, weight, rstd);
  return rms_norm_backward_cpu(dy, sum, weight, rstd, dsum);
}

Triple forward_meta(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, double eps) {
  check(x, residual, weight);
  const auto sizes = x.sym_sizes();
  return {at::empty_symint(sizes, x.options()), at::empty_symint(sizes, x.options()),
          at::empty_symint(sizes.slice(0, sizes.size() - 1), x.options().dtype(wide_type(x)))};
}
Pair backward_meta(const at::Tensor& dsum, const at::Tensor& dy, const at::Tensor& sum, const at::Tensor& weight, const at::Tensor& rstd) {
  return {at::empty_symint(sum.sym_sizes(), sum.options()),
          at::empty_symint(weight.sym_sizes(), weight.options().dtype(wide_type(sum)))};
}

Triple call_forward(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, double eps) {
  static const auto op = find_op<Triple(const at::Tensor&, const at::Tensor&, const at::Tensor&, double)>("trine::add_rms_norm_forward");
  return op.call(x, residual, weight, eps);
}
Pair call_backward(const at::Tensor& dsum, const at::Tensor& dy, const at::Tensor& sum, const at::Tensor& weight, const at::Tensor& rstd) {
  static const auto op = find_op<Pair(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&)>(
      "trine::add_rms_norm_backward");
  return op.call(dsum, dy, sum, weight, rstd);
}

struct AddRmsNorm : torch::autograd::Function<AddRmsNorm> {
  static variable_list forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, double eps,
                               int64_t sink, bool fused) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const auto [sum, y, rstd] = fused ? call_forward(x, residual, weight, eps) : forward_reference(x, residual, weight, eps);
    ctx->save_for_backward({sum, weight, rstd});
    ctx->saved_data["sink"] = sink;
    ctx->saved_data["fused"] = fused;
    return {sum, y};
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &sum = saved[0], &weight = saved[1], &rstd = saved[2];
    auto [dx, dweight] = ctx->saved_data["fused"].toBool() ? call_backward(grads[0], grads[1], sum, weight, rstd)
                                                           : backward_reference(grads[0], grads[1], sum, weight, rstd);
    dweight = norm_weight_gradient(dweight, weight, reinterpret_cast<GradientSink*>(ctx->saved_data["sink"].toInt()));
    return {dx, dx, dweight, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

std::pair<at::Tensor, at::Tensor> add_rms_norm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, double eps,
                                               GradientSink* sink, Implementation implementation) {
  const variable_list results =
      AddRmsNorm::apply(x, residual, weight, eps, reinterpret_cast<int64_t>(sink), implementation == Implementation::kFused);
  return {results[0], results[1]};
}

TORCH_LIBRARY_FRAGMENT(trine, m) {
  m.def("add_rms_norm(Tensor x, Tensor residual, Tensor weight, float eps) -> (Tensor sum, Tensor y)");
  m.def("add_rms_norm_forward(Tensor x, Tensor residual, Tensor weight, float eps) -> (Tensor sum, Tensor y, Tensor rstd)");
  m.def("add_rms_norm_backward(Tensor dsum, Tensor dy, Tensor sum, Tensor weight, Tensor rstd) -> (Tensor dx, Tensor dweight)");
}
TORCH_LIBRARY_IMPL(trine, Autograd, m) {
  m.impl("add_rms_norm", [](const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, double eps) {
    const auto [sum, y] = add_rms_norm(x, residual, weight, eps, nullptr, Implementation::kFused);
    return Pair(sum, y);
  });
  m.impl("add_rms_norm_forward", torch::autograd::autogradNotImplementedFallback());
  m.impl("add_rms_norm_backward", torch::autograd::autogradNotImplementedFallback());
}
TORCH_LIBRARY_IMPL(trine, CompositeExplicitAutograd, m) {
  m.impl("add_rms_norm", [](const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, double eps) {
    const auto [sum, y, rstd] = call_forward(x, residual, weight, eps);
    return Pair(sum, y);
  });
  m.impl("add_rms_norm_forward", forward_reference);
  m.impl("add_rms_norm_backward", backward_reference);
}
TORCH_LIBRARY_IMPL(trine, CPU, m) {
  m.impl("add_rms_norm_forward", forward_cpu);
  m.impl("add_rms_norm_backward", backward_cpu);
}
TORCH_LIBRARY_IMPL(trine, Meta, m) {
  m.impl("add_rms_norm_forward", forward_meta);
  m.impl("add_rms_norm_backward", backward_meta);
}

}  // namespace trine
