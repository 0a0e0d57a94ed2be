// The norm of a model's gradients, without a wide copy of them.
//
// Registered: trine::grad_norm(Tensor[] gradients) -> Tensor, a float64 scalar. Not differentiable.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/implementation.h"

namespace trine {

// The Euclidean norm of all elements of all tensors (at least one, of any floating dtypes, on one device): what
// torch.nn.utils.clip_grad_norm_ computes and returns, but in float64 whatever the dtypes. On the CPU squares of float32 and bfloat16
// are summed in fp32 a few at a time and those sums in double: one running sum in fp32 over millions of values would be off by parts in
// ten thousand. The number of threads changes no bit; tensors that are not contiguous are copied.
// A NaN anywhere makes it NaN, else an infinity makes it infinite; so does, with the kernel and in torch, a finite fp32 value above
// 1.8e19, whose square fp32 does not hold.
double grad_norm(at::TensorList gradients, Implementation implementation = Implementation::kFused);

// True if every value is finite.
bool all_finite(const at::Tensor& x);

}  // namespace trine
