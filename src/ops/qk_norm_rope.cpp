#include "ops/qk_norm_rope.h"

#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>
#include <torch/torch.h>

#include "ops/qk_norm_rope_cpu.h"
#include "ops/rms_norm.h"
#include "ops/rms_norm_rows.h"
#include "ops/rope_tensors.h"

namespace trine {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Pair = std::tuple<at::Tensor, at::Tensor>;
using Positions = std::optional<at::Tensor>;
using T = const at::Tensor&;

void check(T x_bshd, T weight_d, T cos, T sin, const Positions& positions) {
  check_rope("qk_norm_rope", x_bshd, cos, sin, positions, RopeLayout::kBshd);
  check_norm_weight("qk_norm_rope", x_bshd, weight_d);
}

Pair forward_reference(T x_bshd, T weight_d, T cos, T sin, const Positions& positions, double eps) {
  check(x_bshd, weight_d, cos, sin, positions);
  const auto [normed, rstd_bsh] = wide_rms_norm(widen(x_bshd), weight_d, eps);
  const at::Tensor y_bshd = wide_rope(normed, cos, sin, positions, RopeLayout::kBshd, /*backwards=*/false);
  return {y_bshd.to(x_bshd.scalar_type()).transpose(1, 2).contiguous(), rstd_bsh.contiguous()};
}

Pair backward_reference(T dy_bhsd, T x_bshd, T weight_d, T cos, T sin, const Positions& positions, T rstd_bsh) {
  const at::Tensor dy_bshd = dy_bhsd.transpose(1, 2).to(wide_type(x_bshd));
  const at::Tensor dnormed = wide_rope(dy_bshd, cos, sin, positions, RopeLayout::kBshd, /*backwards=*/true);
  const auto [dx, dweight] = wide_rms_norm_backward(dnormed, widen(x_bshd), weight_d, rstd_bsh);
  return {dx.to(x_bshd.scalar_type()).contiguous(), dweight};
}

Pair forward_cpu(T x_bshd, T weight_d, T cos, T sin, const Positions& positions, double eps) {
  if (!has_kernel_type(x_bshd)) return forward_reference(x_bshd, weight_d, cos, sin, positions, eps);
  check(x_bshd, weight_d, cos, sin, positions);
  const at::Tensor x = with_contiguous_heads(x_bshd), weight = weight_d.to(at::kFloat).contiguous();
  const int64_t batch = x.size(0), length = x.size(1), num_heads = x.size(2), head_dim = x.size(3);
  const RopeTensors tables(cos, sin, positions, length);
  at::Tensor y = at::empty({batch, num_heads, length, head_dim}, x.options());
  at::Tensor rstd = at::empty({batch, length, num_heads}, x.options().dtype(at::kFloat));
  with_value_type(x, [&](auto value) {
    using Value = decltype(value);
    parallel_items(batch * length, num_heads * head_dim, [&](int64_t begin, int64_t end) {
      qk_norm_rope_cpu(values_of<Value>(x), head_strides(x, RopeLayout::kBshd), values_of<float>(weight), static_cast<float>(eps),
                       writable_values_of<Value>(y), head_strides(y, RopeLayout::kBhsd), writable_values_of<float>(rstd), tables.rows(),
                       num_heads, begin, end, instruction_set());
    });
  });
  return {y, rstd};
}

Pair backward_cpu(T dy_bhsd, T x_bshd, T weight_d, T cos, T sin, const Positions& positions, T rstd_bsh) {
  if (!has_kernel_type(x_bshd)) return backward_reference(dy_bhsd, x_bshd, weight_d, cos, sin, positions, rstd_bsh);
  const at::Tensor dy = with_contiguous_heads(dy_bhsd.to(x_bshd.scalar_type())), x = with_contiguous_heads(x_bshd);
  const at::Tensor weight = weight_d.to(at::kFloat).contiguous(), rstd = rstd_bsh.contiguous();
  const int64_t length = x.size(1), num_heads = x.size(2), head_dim = x.size(3), tokens = x.size(0) * length;
  const int64_t tokens_per_block = std::max<int64_t>(1, kNormBlockRows / std::max<int64_t>(1, num_heads));
  const int64_t blocks = (tokens + tokens_per_block - 1) / tokens_per_block;
  const RopeTensors tables(cos, sin, positions, length);
  at::Tensor dx = at::empty(x.sizes(), x.options()), partial = at::empty({blocks, head_dim}, x.options().dtype(at::kFloat));
  with_value_type(x, [&](auto value) {
    using Value = decltype(value);
    parallel_items(blocks, tokens_per_block * num_heads * head_dim, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        const int64_t first = block * tokens_per_block;
        qk_norm_rope_backward_cpu(values_of<Value>(dy), head_strides(dy, RopeLayout::kBhsd), values_of<Value>(x),
                                  head_strides(x, RopeLayout::kBshd), values_of<float>(weight), values_of<float>(rstd),
                                  writable_values_of<Value>(dx), head_strides(dx, RopeLayout::kBshd),
                                  writable_values_of<float>(partial) + block * head_dim, tables.rows(), num_heads, first,
                                  std::min(first + tokens_per_block, tokens), instruction_set());
      }
    });
  });
  return {dx, sum_blocks(partial)};
}

Pair forward_meta(T x, T weight_d, T cos, T sin, const Positions& positions, double eps) {
  check(x, weight_d, cos, sin, positions);
  return {at::empty_symint({x.sym_size(0), x.sym_size(2), x.sym_size(1), x.sym_size(3)}, x.options()),
          at::empty_symint({x.sym_size(0), x.sym_size(1), x.sym_size(2)}, x.options().dtype(wide_type(x)))};
}
Pair backward_meta(T dy, T x, T weight, T cos, T sin, const Positions& positions, T rstd) {
  return {at::empty_symint(x.sym_sizes(), x.options()), at::empty_symint(weight.sym_sizes(), weight.options().dtype(wide_type(x)))};
}

Pair call_forward(T x, T weight, T cos, T sin, const Positions& positions, double eps) {
  static const auto op = find_op<Pair(T, T, T, T, const Positions&, double)>("trine::qk_norm_rope_forward");
  return op.call(x, weight, cos, sin, positions, eps);
}
Pair call_backward(T dy, T x, T weight, T cos, T sin, const Positions& positions, T rstd) {
  static const auto op = find_op<Pair(T, T, T, T, T, const Positions&, T)>("trine::qk_norm_rope_backward");
  return op.call(dy, x, weight, cos, sin, positions, rstd);
}

struct QkNormRope : torch::autograd::Function<QkNormRope> {
  static at::Tensor forward(AutogradContext* ctx, T x, T weight, T cos, T sin, const Positions& positions, double eps, int64_t sink,
                            bool fused) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const auto [y, rstd] = (fused ? call_forward : forward_reference)(x, weight, cos, sin, positions, eps);
    ctx->save_for_backward({x, weight, cos, sin, positions.value_or(at::Tensor()), rstd});
    ctx->saved_data["sink"] = sink;
    ctx->saved_data["fused"] = fused;
    return y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &cos = saved[2], &sin = saved[3];
    const Positions positions = saved[4].defined() ? Positions(saved[4]) : std::nullopt;
    const auto formula = ctx->saved_data["fused"].toBool() ? call_backward : backward_reference;
    const auto [dx, wide_dweight] = formula(grads[0], x, weight, cos, sin, positions, saved[5]);
    const at::Tensor dweight =
        norm_weight_gradient(wide_dweight, weight, reinterpret_cast<GradientSink*>(ctx->saved_data["sink"].toInt()));
    return {dx, dweight, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor qk_norm_rope(T x_bshd, T weight_d, T cos, T sin, const Positions& positions, double eps, GradientSink* sink,
                        Implementation implementation) {
  return QkNormRope::apply(x_bshd, weight_d, cos, sin, positions, eps, reinterpret_cast<int64_t>(sink),
                           implementation == Implementation::kFused);
}

TORCH_LIBRARY_FRAGMENT(trine, m) {
  m.def("qk_norm_rope(Tensor x, Tensor weight, Tensor cos, Tensor sin, Tensor? positions, float eps) -> Tensor");
  m.def("qk_norm_rope_forward(Tensor x, Tensor weight, Tensor cos, Tensor sin, Tensor? positions, float eps) -> (Tensor y, Tensor rstd)");
  m.def("qk_norm_rope_backward(Tensor dy, Tensor x, Tensor weight, Tensor cos, Tensor sin, Tensor? positions, Tensor rstd)"
        " -> (Tensor dx, Tensor dweight)");
}
TORCH_LIBRARY_IMPL(trine, Autograd, m) {
  m.impl("qk_norm_rope", [](T x, T weight, T cos, T sin, const Positions& positions, double eps) {
    return qk_norm_rope(x, weight, cos, sin, positions, eps, nullptr, Implementation::kFused);
  });
  m.impl("qk_norm_rope_forward", torch::autograd::autogradNotImplementedFallback());
  m.impl("qk_norm_rope_backward", torch::autograd::autogradNotImplementedFallback());
}
TORCH_LIBRARY_IMPL(trine, CompositeExplicitAutograd, m) {
  m.impl("qk_norm_rope", [](T x, T weight, T cos, T sin, const Positions& positions, double eps) {
    return std::get<0>(call_forward(x, weight, cos, sin, positions, eps));
  });
  m.impl("qk_norm_rope_forward", forward_reference);
  m.impl("qk_norm_rope_backward", backward_reference);
}
TORCH_LIBRARY_IMPL(trine, CPU, m) {
  m.impl("qk_norm_rope_forward", forward_cpu);
  m.impl("qk_norm_rope_backward", backward_cpu);
}
TORCH_LIBRARY_IMPL(trine, Meta, m) {
  m.impl("qk_norm_rope_forward", forward_meta);
  m.impl("qk_norm_rope_backward", backward_meta);
}

}  // namespace trine
