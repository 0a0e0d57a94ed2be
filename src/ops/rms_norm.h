// Root-mean-square normalisation over the last dimension (Zhang and Sennrich 2019), in fp32 whatever the dtype of x.
//
// Registered: trine::rms_norm(Tensor x, Tensor weight, float eps) -> Tensor, with autograd;
//   trine::rms_norm_forward(Tensor x, Tensor weight, float eps) -> (Tensor y, Tensor rstd), rstd: x's shape without the last dimension;
//   trine::rms_norm_backward(Tensor dy, Tensor x, Tensor weight, Tensor rstd) -> (Tensor dx, Tensor dweight), dweight in fp32.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

#include "ops/gradient_sink.h"
#include "ops/implementation.h"

namespace trine {

// y = x / sqrt(mean(x²) + eps) · weight. x: [..., n], weight: [n]; the result has x's dtype and is contiguous. Backward keeps x and one
// number a row. The weight's gradient is summed over blocks of rows that do not depend on the number of threads.
// Throws c10::Error if weight is not [n].
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps, GradientSink* sink = nullptr,
                    Implementation implementation = Implementation::kReference);

// What ops that contain a normalisation share.

// The formulas in plain tensor operations. `wide`: fp32 or float64; rstd as above.
// With x̂ = x·rstd and g = dy·w:  dx = rstd·(g − x̂·mean(g·x̂)),  dw = Σ_rows dy·x̂.
std::tuple<at::Tensor, at::Tensor> wide_rms_norm(const at::Tensor& wide_x, const at::Tensor& weight, double eps);
std::tuple<at::Tensor, at::Tensor> wide_rms_norm_backward(const at::Tensor& wide_dy, const at::Tensor& wide_x, const at::Tensor& weight,
                                                          const at::Tensor& rstd);

// (dx, dweight) of float32 or bfloat16 on the CPU; `dsum`, where defined, is added to dx.
std::tuple<at::Tensor, at::Tensor> rms_norm_backward_cpu(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight,
                                                         const at::Tensor& rstd, const at::Tensor& dsum);

// What autograd gets for the weight: nothing if there is a sink, which then gets the fp32 gradient.
at::Tensor norm_weight_gradient(const at::Tensor& dweight, const at::Tensor& weight, GradientSink* sink);

// Throws c10::Error, naming `op`, if x has no dimension or weight is not one value for each of its last dimension.
void check_norm_weight(const char* op, const at::Tensor& x, const at::Tensor& weight);

// Σ of the rows of an fp32 [blocks, n] in order and in double, as fp32 [n].
at::Tensor sum_blocks(const at::Tensor& partial_bn);

}  // namespace trine
