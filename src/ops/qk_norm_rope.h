// What lies between the q and k projections and attention: normalisation over each head, then the rotation, written in attention's layout.
//
// B rows, S positions, H heads, D head_dim. Tables and positions as in ops/rope.h, formulas as in ops/rms_norm.h.
// Registered: trine::qk_norm_rope(Tensor x, Tensor weight, Tensor cos, Tensor sin, Tensor? positions, float eps) -> Tensor, with autograd
//   for x and weight;
//   trine::qk_norm_rope_forward(...) -> (Tensor y, Tensor rstd), rstd: [B, S, H];
//   trine::qk_norm_rope_backward(Tensor dy, Tensor x, Tensor weight, Tensor cos, Tensor sin, Tensor? positions, Tensor rstd)
//   -> (Tensor dx, Tensor dweight), dweight in fp32.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "ops/gradient_sink.h"
#include "ops/implementation.h"

namespace trine {

// x: [B, S, H, D] (heads any distance apart, as in a slice of a joint projection), weight: [D]. Returns [B, H, S, D], contiguous, in x's
// dtype, rounded once: in bf16 rope(rms_norm(x)) rounds between the two as well. Backward keeps x and one number a head.
// Throws c10::Error on shapes that do not fit and on a position outside the table.
at::Tensor qk_norm_rope(const at::Tensor& x_bshd, const at::Tensor& weight_d, const at::Tensor& cos, const at::Tensor& sin,
                        const std::optional<at::Tensor>& positions, double eps, GradientSink* sink = nullptr,
                        Implementation implementation = Implementation::kReference);

}  // namespace trine
