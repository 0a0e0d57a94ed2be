// Between tensors and the kernels that know no tensors: dtypes, pointers, rows, and how work is split over threads.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <type_traits>

#include "ops/bfloat16_bits.h"

namespace trine {

// fp32 for every narrower dtype; float64 stays, for gradient checks.
inline at::ScalarType wide_type(const at::Tensor& x) { return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }
inline at::Tensor widen(const at::Tensor& x) { return x.to(wide_type(x)); }

// The dtypes that CPU kernels take; others get the reference.
inline bool has_kernel_type(const at::Tensor& x) { return x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16; }

// Calls action(float()) or action(BFloat16Bits()) for a tensor that has a kernel type.
template <class Action>
void with_value_type(const at::Tensor& x, const Action& action) {
  if (x.scalar_type() == at::kFloat) return action(float());
  TORCH_CHECK(x.scalar_type() == at::kBFloat16, "float32 or bfloat16 expected, found ", x.scalar_type());
  action(BFloat16Bits());
}

template <class Value>
const Value* values_of(const at::Tensor& x) {
  return static_cast<const Value*>(x.const_data_ptr());
}
template <class Value>
Value* writable_values_of(const at::Tensor& x) {
  return static_cast<Value*>(x.mutable_data_ptr());
}

// x: [..., n] as [rows, n], each row contiguous, rows any distance apart. A copy only where no view will do.
inline at::Tensor as_rows(const at::Tensor& x) {
  const int64_t n = x.size(-1);
  const at::Tensor rows = x.reshape({c10::multiply_integers(x.sizes().begin(), x.sizes().end() - 1), n});
  return n <= 1 || rows.stride(1) == 1 ? rows : rows.contiguous();
}

// Calls action(begin, end) for ranges that cover 0..count, each worth a thread's while; `size` is how many values one item has.
template <class Action>
void parallel_items(int64_t count, int64_t size, const Action& action) {
  constexpr int64_t kLeastValues = 1 << 15;
  at::parallel_for(0, count, std::max<int64_t>(1, kLeastValues / std::max<int64_t>(1, size)), action);
}

// A registered op, typed.
template <class Signature>
c10::TypedOperatorHandle<Signature> find_op(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

}  // namespace trine
