// Root-mean-square normalisation over the last dimension (Zhang and Sennrich 2019), in fp32 whatever the dtype of x.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/gradient_sink.h"

namespace trine {

// y = x / sqrt(mean(x²) + eps) · weight. x: [..., n], weight: [n]; the result has x's dtype. Backward keeps x and one number a row.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps, GradientSink* sink = nullptr);

}  // namespace trine
