// Rotary position embedding, rotate-half: dimension i is paired with i + head_dim/2, as published Qwen3 and Llama weights expect (case G1).
//
// Angles, cosines and sines are fp32 always; only the rotated result is cast back (case E5).
// B rows of a batch, H heads, S positions, D head_dim, P rows of a table.
//
// Registered: trine::rope(Tensor x, Tensor cos, Tensor sin, Tensor? positions=None, str layout="bhsd") -> Tensor, with autograd for x;
//   trine::rope_backward(Tensor grad, Tensor cos, Tensor sin, Tensor? positions, str layout) -> Tensor, which turns the other way.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

#include "ops/implementation.h"
#include "ops/rope_table.h"

namespace trine {

enum class RopeLayout { kBhsd, kBshd };  // x: [B, H, S, D] or [B, S, H, D]

// cos and sin: fp32 (float64 with a float64 x), either [P, D/2] or [B, S, D/2]. `positions`: int64 [B, S], the row of [P, D/2] tables for
// each token; without it token s takes row s, and P must be S. The result is contiguous, in x's shape and dtype; the bits are those of
// the reference for every implementation. Backward turns the other way with the same tables, which get no gradient.
// Throws c10::Error on shapes that do not fit and on a position outside the table.
at::Tensor rope(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, RopeLayout layout = RopeLayout::kBhsd,
                const std::optional<at::Tensor>& positions = std::nullopt, Implementation implementation = Implementation::kReference);

// What ops that contain a rotation share.

// Throws c10::Error, naming `op`, unless the tables and positions fit x. Works on shapes only.
void check_rope(const char* op, const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                const std::optional<at::Tensor>& positions, RopeLayout layout);
// The rotation in plain tensor operations, of an fp32 or float64 x.
at::Tensor wide_rope(const at::Tensor& wide_x, const at::Tensor& cos, const at::Tensor& sin, const std::optional<at::Tensor>& positions,
                     RopeLayout layout, bool backwards);

}  // namespace trine
