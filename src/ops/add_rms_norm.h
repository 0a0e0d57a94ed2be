// A residual sum and the normalisation of it, in one pass over memory.
//
// Registered: trine::add_rms_norm(Tensor x, Tensor residual, Tensor weight, float eps) -> (Tensor sum, Tensor y), with autograd;
//   trine::add_rms_norm_forward(...) -> (Tensor sum, Tensor y, Tensor rstd), rstd: x's shape without the last dimension;
//   trine::add_rms_norm_backward(Tensor dsum, Tensor dy, Tensor sum, Tensor weight, Tensor rstd) -> (Tensor dx, Tensor dweight): dx is
//   the gradient of x and of residual, dweight is fp32.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

#include "ops/gradient_sink.h"
#include "ops/implementation.h"

namespace trine {

// sum = x + residual in x's dtype, y = rms_norm(sum) (ops/rms_norm.h). x and residual: [..., n] of one shape and dtype, weight: [n];
// both results are contiguous. Backward keeps the sum and one number a row. Throws c10::Error on shapes that do not fit.
std::pair<at::Tensor, at::Tensor> add_rms_norm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, double eps,
                                               GradientSink* sink = nullptr, Implementation implementation = Implementation::kReference);

}  // namespace trine
