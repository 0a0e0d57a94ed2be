#include "ops/rope.h"

#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>
#include <torch/torch.h>

#include "ops/rope_tensors.h"

namespace trine {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Positions = std::optional<at::Tensor>;

RopeLayout layout_of(std::string_view name) {
  TORCH_CHECK(name == "bhsd" || name == "bshd", "rope: layout \"bhsd\" or \"bshd\" expected, found \"", name, "\"");
  return name == "bhsd" ? RopeLayout::kBhsd : RopeLayout::kBshd;
}
std::string_view name_of(RopeLayout layout) { return layout == RopeLayout::kBhsd ? "bhsd" : "bshd"; }

at::Tensor rotate_reference(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, const Positions& positions,
                            RopeLayout layout, bool backwards) {
  check_rope("rope", x, cos, sin, positions, layout);
  return wide_rope(widen(x), cos, sin, positions, layout, backwards).to(x.scalar_type()).contiguous();
}

at::Tensor rotate_cpu(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, const Positions& positions, RopeLayout layout,
                      bool backwards) {
  if (!has_kernel_type(x)) return rotate_reference(x, cos, sin, positions, layout, backwards);
  check_rope("rope", x, cos, sin, positions, layout);
  const at::Tensor from = with_contiguous_heads(x);
  const int64_t length = rope_length(x, layout), num_heads = rope_heads(x, layout);
  const RopeTensors tables(cos, sin, positions, length);
  at::Tensor y = at::empty(x.sizes(), x.options());
  with_value_type(x, [&](auto value) {
    using Value = decltype(value);
    parallel_items(x.size(0) * length, num_heads * x.size(3), [&](int64_t begin, int64_t end) {
      rope_cpu(values_of<Value>(from), head_strides(from, layout), writable_values_of<Value>(y), head_strides(y, layout), tables.rows(),
               num_heads, begin, end, backwards, instruction_set());
    });
  });
  return y;
}

at::Tensor rotate_meta(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, const Positions& positions, RopeLayout layout,
                       bool) {
  check_rope("rope", x, cos, sin, positions, layout);
  return at::empty_symint(x.sym_sizes(), x.options());
}

// One of the three above as a registered kernel.
template <auto kRotate, bool kBackwards>
at::Tensor kernel(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, const Positions& positions, std::string_view layout) {
  return kRotate(x, cos, sin, positions, layout_of(layout), kBackwards);
}

at::Tensor call_op(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, const Positions& positions, RopeLayout layout,
                   bool backwards) {
  using Signature = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, const Positions&, std::string_view);
  static const auto forward = find_op<Signature>("trine::rope"), backward = find_op<Signature>("trine::rope_backward");
  return (backwards ? backward : forward).call(x, cos, sin, positions, name_of(layout));
}

struct Rope : torch::autograd::Function<Rope> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                            const Positions& positions, bool is_bshd, bool fused) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    ctx->save_for_backward({cos, sin, positions.value_or(at::Tensor())});
    ctx->saved_data["is_bshd"] = is_bshd;
    ctx->saved_data["fused"] = fused;
    const RopeLayout layout = is_bshd ? RopeLayout::kBshd : RopeLayout::kBhsd;
    return (fused ? call_op : rotate_reference)(x, cos, sin, positions, layout, /*backwards=*/false);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const RopeLayout layout = ctx->saved_data["is_bshd"].toBool() ? RopeLayout::kBshd : RopeLayout::kBhsd;
    const Positions positions = saved[2].defined() ? Positions(saved[2]) : std::nullopt;
    const auto rotate = ctx->saved_data["fused"].toBool() ? call_op : rotate_reference;
    at::Tensor dx = rotate(grads[0], saved[0], saved[1], positions, layout, /*backwards=*/true);
    return {dx, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

void check_rope(const char* op, const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, const Positions& positions,
                RopeLayout layout) {
  TORCH_CHECK(x.dim() == 4 && x.is_floating_point(), op, ": floating-point x of four dimensions (", name_of(layout), ") expected, found ",
              x.scalar_type(), " ", x.sym_sizes());
  const auto batch = x.sym_size(0), length = x.sym_size(layout == RopeLayout::kBhsd ? 2 : 1), head_dim = x.sym_size(3);
  TORCH_CHECK(cos.sym_sizes() == sin.sym_sizes() && (cos.dim() == 2 || cos.dim() == 3) && cos.sym_size(-1) * 2 == head_dim, op,
              ": cos and sin of the same shape with ", head_dim, "/2 columns expected (half of x's last dimension), found ",
              cos.sym_sizes(), " and ", sin.sym_sizes());
  const auto is_wide = [&](const at::Tensor& table) {
    return table.scalar_type() == at::kFloat || (table.scalar_type() == at::kDouble && x.scalar_type() == at::kDouble);
  };
  TORCH_CHECK(is_wide(cos) && is_wide(sin), op, ": float32 cos and sin expected (float64 with a float64 x), found ", cos.scalar_type(),
              " and ", sin.scalar_type());
  if (positions) {
    TORCH_CHECK(cos.dim() == 2, op, ": with positions, cos and sin of two dimensions expected, found ", cos.sym_sizes());
    TORCH_CHECK(positions->scalar_type() == at::kLong && positions->dim() == 2 && positions->sym_size(0) == batch &&
                    positions->sym_size(1) == length,
                op, ": int64 positions of shape [", batch, ", ", length, "] expected, found ", positions->scalar_type(), " ",
                positions->sym_sizes());
  } else if (cos.dim() == 3) {
    TORCH_CHECK(cos.sym_size(0) == batch && cos.sym_size(1) == length, op, ": cos and sin of [", batch, ", ", length, ", ", head_dim,
                "/2] expected, found ", cos.sym_sizes());
  } else {
    TORCH_CHECK(cos.sym_size(0) == length, op, ": without positions, cos and sin with one row for each of ", length,
                " positions expected, found ", cos.sym_sizes());
  }
}

at::Tensor wide_rope(const at::Tensor& wide_x, const at::Tensor& cos, const at::Tensor& sin, const Positions& positions, RopeLayout layout,
                     bool backwards) {
  const int64_t head_dimension = layout == RopeLayout::kBhsd ? 1 : 2;
  // [P, D/2] broadcasts over the heads of BHSD; other tables and the other layout need a dimension of size 1 there.
  const auto over_heads = [&](const at::Tensor& table) {
    const at::Tensor rows = positions ? table.index({*positions}) : table;
    return rows.dim() == 3 ? rows.unsqueeze(head_dimension) : rows.unsqueeze(head_dimension - 1);
  };
  const auto halves = wide_x.chunk(2, -1);
  const at::Tensor c = over_heads(cos), s = over_heads(sin);
  const at::Tensor first = backwards ? halves[0] * c + halves[1] * s : halves[0] * c - halves[1] * s;
  const at::Tensor second = backwards ? halves[1] * c - halves[0] * s : halves[1] * c + halves[0] * s;
  return at::cat({first, second}, -1);
}

at::Tensor rope(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, RopeLayout layout, const Positions& positions,
                Implementation implementation) {
  return Rope::apply(x, cos, sin, positions, layout == RopeLayout::kBshd, implementation == Implementation::kFused);
}

TORCH_LIBRARY_FRAGMENT(trine, m) {
  m.def("rope(Tensor x, Tensor cos, Tensor sin, Tensor? positions=None, str layout=\"bhsd\") -> Tensor");
  m.def("rope_backward(Tensor grad, Tensor cos, Tensor sin, Tensor? positions, str layout) -> Tensor");
}
TORCH_LIBRARY_IMPL(trine, Autograd, m) {
  m.impl("rope", [](const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, const Positions& positions,
                    std::string_view layout) { return rope(x, cos, sin, layout_of(layout), positions, Implementation::kFused); });
  m.impl("rope_backward", torch::autograd::autogradNotImplementedFallback());
}
TORCH_LIBRARY_IMPL(trine, CompositeExplicitAutograd, m) {
  m.impl("rope", kernel<rotate_reference, false>);
  m.impl("rope_backward", kernel<rotate_reference, true>);
}
TORCH_LIBRARY_IMPL(trine, CPU, m) {
  m.impl("rope", kernel<rotate_cpu, false>);
  m.impl("rope_backward", kernel<rotate_cpu, true>);
}
TORCH_LIBRARY_IMPL(trine, Meta, m) {
  m.impl("rope", kernel<rotate_meta, false>);
  m.impl("rope_backward", kernel<rotate_meta, true>);
}

}  // namespace trine
