#include "ops/rms_norm.h"

#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>
#include <torch/torch.h>

#include "ops/rms_norm_cpu.h"
#include "ops/rms_norm_rows.h"
#include "ops/tensor_values.h"

namespace trine {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Pair = std::tuple<at::Tensor, at::Tensor>;

Pair forward_reference(const at::Tensor& x, const at::Tensor& weight, double eps) {
  check_norm_weight("rms_norm", x, weight);
  const auto [y, rstd] = wide_rms_norm(widen(x), weight, eps);
  return {y.to(x.scalar_type()).contiguous(), rstd};
}

Pair backward_reference(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& rstd) {
  const auto [dx, dweight] = wide_rms_norm_backward(dy.to(wide_type(x)), widen(x), weight, rstd);
  return {dx.to(x.scalar_type()).contiguous(), dweight};
}

Pair forward_cpu(const at::Tensor& x, const at::Tensor& weight, double eps) {
  if (!has_kernel_type(x)) return forward_reference(x, weight, eps);
  check_norm_weight("rms_norm", x, weight);
  const at::Tensor x_rn = as_rows(x), weight_n = weight.to(at::kFloat).contiguous();
  const int64_t rows = x_rn.size(0), n = x_rn.size(1);
  at::Tensor y = at::empty(x.sizes(), x.options()), rstd = at::empty(x.sizes().slice(0, x.dim() - 1), x.options().dtype(at::kFloat));
  with_value_type(x, [&](auto value) {
    using Value = decltype(value);
    parallel_items(rows, n, [&](int64_t begin, int64_t end) {
      rms_norm_rows_cpu(values_of<Value>(x_rn) + begin * x_rn.stride(0), x_rn.stride(0), values_of<float>(weight_n),
                        writable_values_of<Value>(y) + begin * n, writable_values_of<float>(rstd) + begin, end - begin, n,
                        static_cast<float>(eps), instruction_set());
    });
  });
  return {y, rstd};
}

Pair backward_cpu(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& rstd) {
  if (!has_kernel_type(x)) return backward_reference(dy, x, weight, rstd);
  return rms_norm_backward_cpu(dy, x, weight, rstd, at::Tensor());
}

Pair forward_meta(const at::Tensor& x, const at::Tensor& weight, double eps) {
  check_norm_weight("rms_norm", x, weight);
  const auto sizes = x.sym_sizes();
  return {at::empty_symint(sizes, x.options()), at::empty_symint(sizes.slice(0, sizes.size() - 1), x.options().dtype(wide_type(x)))};
}
Pair backward_meta(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& rstd) {
  return {at::empty_symint(x.sym_sizes(), x.options()), at::empty_symint(weight.sym_sizes(), weight.options().dtype(wide_type(x)))};
}

Pair call_forward(const at::Tensor& x, const at::Tensor& weight, double eps) {
  static const auto op = find_op<Pair(const at::Tensor&, const at::Tensor&, double)>("trine::rms_norm_forward");
  return op.call(x, weight, eps);
}
Pair call_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& rstd) {
  static const auto op =
      find_op<Pair(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&)>("trine::rms_norm_backward");
  return op.call(dy, x, weight, rstd);
}

struct RmsNorm : torch::autograd::Function<RmsNorm> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight, double eps, int64_t sink, bool fused) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const auto [y, rstd] = fused ? call_forward(x, weight, eps) : forward_reference(x, weight, eps);
    ctx->save_for_backward({x, weight, rstd});
    ctx->saved_data["sink"] = sink;
    ctx->saved_data["fused"] = fused;
    return y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &rstd = saved[2];
    auto [dx, dweight] =
        ctx->saved_data["fused"].toBool() ? call_backward(grads[0], x, weight, rstd) : backward_reference(grads[0], x, weight, rstd);
    dweight = norm_weight_gradient(dweight, weight, reinterpret_cast<GradientSink*>(ctx->saved_data["sink"].toInt()));
    return {dx, dweight, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

void check_norm_weight(const char* op, const at::Tensor& x, const at::Tensor& weight) {
  TORCH_CHECK(x.dim() > 0, op, ": x of at least one dimension expected, found a scalar");
  TORCH_CHECK(weight.dim() == 1 && weight.sym_size(0) == x.sym_size(-1), op, ": weight of shape [", x.sym_size(-1),
              "] expected, the last dimension of x, found ", weight.sym_sizes());
  TORCH_CHECK(x.is_floating_point() && weight.is_floating_point(), op, ": floating-point x and weight expected, found ", x.scalar_type(),
              " and ", weight.scalar_type());
}

Pair wide_rms_norm(const at::Tensor& wide_x, const at::Tensor& weight, double eps) {
  const at::Tensor rstd = wide_x.square().mean(-1, /*keepdim=*/true).add_(eps).rsqrt_();
  return {(wide_x * rstd).mul_(weight.to(wide_x.scalar_type())), rstd.squeeze(-1)};
}

Pair wide_rms_norm_backward(const at::Tensor& wide_dy, const at::Tensor& wide_x, const at::Tensor& weight, const at::Tensor& rstd) {
  const at::Tensor scale = rstd.unsqueeze(-1), x_hat = wide_x * scale, g = wide_dy * weight.to(wide_x.scalar_type());
  const int64_t n = wide_x.size(-1);
  const at::Tensor dweight = (wide_dy * x_hat).reshape({wide_x.numel() / std::max<int64_t>(1, n), n}).sum(0);
  return {(g - x_hat * (g * x_hat).mean(-1, /*keepdim=*/true)).mul_(scale), dweight};
}

Pair rms_norm_backward_cpu(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& rstd,
                           const at::Tensor& dsum) {
  const at::Tensor dy_rn = as_rows(dy.to(x.scalar_type())), x_rn = as_rows(x), weight_n = weight.to(at::kFloat).contiguous();
  const at::Tensor rstd_r = rstd.contiguous();
  const at::Tensor dsum_rn = dsum.defined() ? dsum.to(x.scalar_type()).contiguous() : dsum;
  const int64_t rows = x_rn.size(0), n = x_rn.size(1), blocks = (rows + kNormBlockRows - 1) / kNormBlockRows;
  at::Tensor dx = at::empty(x.sizes(), x.options()), partial_bn = at::empty({blocks, n}, x.options().dtype(at::kFloat));
  with_value_type(x, [&](auto value) {
    using Value = decltype(value);
    parallel_items(blocks, kNormBlockRows * n, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        const int64_t row = block * kNormBlockRows;
        rms_norm_backward_rows_cpu(values_of<Value>(dy_rn) + row * dy_rn.stride(0), dy_rn.stride(0),
                                   values_of<Value>(x_rn) + row * x_rn.stride(0), x_rn.stride(0), values_of<float>(weight_n),
                                   values_of<float>(rstd_r) + row, dsum_rn.defined() ? values_of<Value>(dsum_rn) + row * n : nullptr,
                                   writable_values_of<Value>(dx) + row * n, writable_values_of<float>(partial_bn) + block * n,
                                   std::min(kNormBlockRows, rows - row), n, instruction_set());
      }
    });
  });
  return {dx, sum_blocks(partial_bn)};
}

at::Tensor norm_weight_gradient(const at::Tensor& dweight, const at::Tensor& weight, GradientSink* sink) {
  if (!sink) return dweight.to(weight.scalar_type());
  sink->add(dweight);
  return at::Tensor();
}

at::Tensor sum_blocks(const at::Tensor& partial_bn) {
  at::Tensor sum_n = at::empty({partial_bn.size(1)}, partial_bn.options());
  sum_blocks_cpu(values_of<float>(partial_bn), partial_bn.size(0), partial_bn.size(1), writable_values_of<float>(sum_n));
  return sum_n;
}

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps, GradientSink* sink, Implementation implementation) {
  return RmsNorm::apply(x, weight, eps, reinterpret_cast<int64_t>(sink), implementation == Implementation::kFused);
}

TORCH_LIBRARY_FRAGMENT(trine, m) {
  m.def("rms_norm(Tensor x, Tensor weight, float eps) -> Tensor");
  m.def("rms_norm_forward(Tensor x, Tensor weight, float eps) -> (Tensor y, Tensor rstd)");
  m.def("rms_norm_backward(Tensor dy, Tensor x, Tensor weight, Tensor rstd) -> (Tensor dx, Tensor dweight)");
}
TORCH_LIBRARY_IMPL(trine, Autograd, m) {
  m.impl("rms_norm", [](const at::Tensor& x, const at::Tensor& weight, double eps) {
    return rms_norm(x, weight, eps, nullptr, Implementation::kFused);
  });
  m.impl("rms_norm_forward", torch::autograd::autogradNotImplementedFallback());
  m.impl("rms_norm_backward", torch::autograd::autogradNotImplementedFallback());
}
TORCH_LIBRARY_IMPL(trine, CompositeExplicitAutograd, m) {
  m.impl("rms_norm", [](const at::Tensor& x, const at::Tensor& weight, double eps) { return std::get<0>(call_forward(x, weight, eps)); });
  m.impl("rms_norm_forward", forward_reference);
  m.impl("rms_norm_backward", backward_reference);
}
TORCH_LIBRARY_IMPL(trine, CPU, m) {
  m.impl("rms_norm_forward", forward_cpu);
  m.impl("rms_norm_backward", backward_cpu);
}
TORCH_LIBRARY_IMPL(trine, Meta, m) {
  m.impl("rms_norm_forward", forward_meta);
  m.impl("rms_norm_backward", backward_meta);
}

}  // namespace trine
