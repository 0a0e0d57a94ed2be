// Row look-up whose gradient is added row by row, never as a dense [vocabulary, hidden] tensor.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/gradient_sink.h"

namespace trine {

// ids: integer [...]; weight: [vocab, hidden]; returns [..., hidden]. With a sink, backward adds the looked-up rows to it.
at::Tensor embedding(const at::Tensor& ids, const at::Tensor& weight, GradientSink* sink = nullptr);

}  // namespace trine
