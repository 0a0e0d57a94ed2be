// The gated activation of Qwen3's and Llama's feed-forward: silu(gate) · up.
#pragma once

#include <ATen/core/Tensor.h>

namespace trine {

// gate and up: same shape and dtype. Backward keeps only these two and computes silu(gate) again.
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);

}  // namespace trine
