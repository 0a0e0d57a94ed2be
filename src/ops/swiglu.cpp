#include "ops/swiglu.h"

#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>
#include <torch/torch.h>

#include "ops/swiglu_cpu.h"
#include "ops/tensor_values.h"

namespace trine {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Pair = std::tuple<at::Tensor, at::Tensor>;

void check(const at::Tensor& gate, const at::Tensor& up) {
  TORCH_CHECK(gate.sym_sizes() == up.sym_sizes() && gate.scalar_type() == up.scalar_type(), "swiglu: up like gate expected, ",
              gate.scalar_type(), " ", gate.sym_sizes(), ", found ", up.scalar_type(), " ", up.sym_sizes());
  TORCH_CHECK(gate.dim() > 0 && gate.is_floating_point(), "swiglu: floating-point tensors of at least one dimension expected, found ",
              gate.scalar_type(), " ", gate.sym_sizes());
}

at::Tensor forward_reference(const at::Tensor& gate, const at::Tensor& up) {
  check(gate, up);
  return at::silu(gate).mul_(up).contiguous();
}
Pair backward_reference(const at::Tensor& dy, const at::Tensor& gate, const at::Tensor& up) {
  return {at::silu_backward(dy * up, gate).contiguous(), at::silu(gate).mul_(dy).contiguous()};
}

template <class Value>
SwiGluInputs<Value> rows_from(const at::Tensor& gate_rn, const at::Tensor& up_rn, int64_t begin, int64_t end) {
  return {.gate = values_of<Value>(gate_rn) + begin * gate_rn.stride(0),
          .up = values_of<Value>(up_rn) + begin * up_rn.stride(0),
          .gate_stride = gate_rn.stride(0),
          .up_stride = up_rn.stride(0),
          .rows = end - begin,
          .n = gate_rn.size(1)};
}

at::Tensor forward_cpu(const at::Tensor& gate, const at::Tensor& up) {
  if (!has_kernel_type(gate)) return forward_reference(gate, up);
  check(gate, up);
  const at::Tensor gate_rn = as_rows(gate), up_rn = as_rows(up);
  const int64_t n = gate_rn.size(1);
  at::Tensor y = at::empty(gate.sizes(), gate.options());
  with_value_type(gate, [&](auto value) {
    using Value = decltype(value);
    parallel_items(gate_rn.size(0), n, [&](int64_t begin, int64_t end) {
      swiglu_rows_cpu(rows_from<Value>(gate_rn, up_rn, begin, end), writable_values_of<Value>(y) + begin * n, instruction_set());
    });
  });
  return y;
}

Pair backward_cpu(const at::Tensor& dy, const at::Tensor& gate, const at::Tensor& up) {
  if (!has_kernel_type(gate)) return backward_reference(dy, gate, up);
  const at::Tensor gate_rn = as_rows(gate), up_rn = as_rows(up), dy_rn = dy.to(gate.scalar_type()).contiguous();
  const int64_t n = gate_rn.size(1);
  at::Tensor dgate = at::empty(gate.sizes(), gate.options()), dup = at::empty(gate.sizes(), gate.options());
  with_value_type(gate, [&](auto value) {
    using Value = decltype(value);
    parallel_items(gate_rn.size(0), n, [&](int64_t begin, int64_t end) {
      swiglu_backward_rows_cpu(rows_from<Value>(gate_rn, up_rn, begin, end), values_of<Value>(dy_rn) + begin * n,
                               writable_values_of<Value>(dgate) + begin * n, writable_values_of<Value>(dup) + begin * n,
                               instruction_set());
    });
  });
  return {dgate, dup};
}

at::Tensor forward_meta(const at::Tensor& gate, const at::Tensor& up) {
  check(gate, up);
  return at::empty_symint(gate.sym_sizes(), gate.options());
}
Pair backward_meta(const at::Tensor& dy, const at::Tensor& gate, const at::Tensor& up) {
  return {at::empty_symint(gate.sym_sizes(), gate.options()), at::empty_symint(gate.sym_sizes(), gate.options())};
}

at::Tensor call_forward(const at::Tensor& gate, const at::Tensor& up) {
  static const auto op = find_op<at::Tensor(const at::Tensor&, const at::Tensor&)>("trine::swiglu");
  return op.call(gate, up);
}
Pair call_backward(const at::Tensor& dy, const at::Tensor& gate, const at::Tensor& up) {
  static const auto op = find_op<Pair(const at::Tensor&, const at::Tensor&, const at::Tensor&)>("trine::swiglu_backward");
  return op.call(dy, gate, up);
}

struct SwiGlu : torch::autograd::Function<SwiGlu> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& gate, const at::Tensor& up, bool fused) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    ctx->save_for_backward({gate, up});
    ctx->saved_data["fused"] = fused;
    return fused ? call_forward(gate, up) : forward_reference(gate, up);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const auto [dgate, dup] = ctx->saved_data["fused"].toBool() ? call_backward(grads[0], saved[0], saved[1])
                                                                : backward_reference(grads[0], saved[0], saved[1]);
    return {dgate, dup, at::Tensor()};
  }
};

}  // namespace

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up, Implementation implementation) {
  return SwiGlu::apply(gate, up, implementation == Implementation::kFused);
}

TORCH_LIBRARY_FRAGMENT(trine, m) {
  m.def("swiglu(Tensor gate, Tensor up) -> Tensor");
  m.def("swiglu_backward(Tensor dy, Tensor gate, Tensor up) -> (Tensor dgate, Tensor dup)");
}
TORCH_LIBRARY_IMPL(trine, Autograd, m) {
  m.impl("swiglu", [](const at::Tensor& gate, const at::Tensor& up) { return swiglu(gate, up, Implementation::kFused); });
  m.impl("swiglu_backward", torch::autograd::autogradNotImplementedFallback());
}
TORCH_LIBRARY_IMPL(trine, CompositeExplicitAutograd, m) {
  m.impl("swiglu", forward_reference);
  m.impl("swiglu_backward", backward_reference);
}
TORCH_LIBRARY_IMPL(trine, CPU, m) {
  m.impl("swiglu", forward_cpu);
  m.impl("swiglu_backward", backward_cpu);
}
TORCH_LIBRARY_IMPL(trine, Meta, m) {
  m.impl("swiglu", forward_meta);
  m.impl("swiglu_backward", backward_meta);
}

}  // namespace trine
