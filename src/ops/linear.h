// y = x Wᵀ without bias, the weight gradient going to a sink.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/gradient_sink.h"

namespace trine {

// x: [..., in], weight: [out, in] of the same dtype; returns [..., out]. With a sink, backward adds dyᵀ x to it and autograd sees no
// weight gradient; without one, autograd gets it as usual.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, GradientSink* sink = nullptr);

}  // namespace trine
