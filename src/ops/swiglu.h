// The gated activation of Qwen3's and Llama's feed-forward: silu(gate) · up.
//
// Registered: trine::swiglu(Tensor gate, Tensor up) -> Tensor, with autograd;
//   trine::swiglu_backward(Tensor dy, Tensor gate, Tensor up) -> (Tensor dgate, Tensor dup).
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/implementation.h"

namespace trine {

// gate and up: same shape and dtype; the result is contiguous. Backward keeps only these two and computes silu(gate) again.
// The fused one computes in fp32 and rounds once; the reference rounds silu(gate) too. Throws c10::Error if shapes or dtypes differ.
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up, Implementation implementation = Implementation::kReference);

}  // namespace trine
