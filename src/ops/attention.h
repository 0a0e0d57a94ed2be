// Causal attention with grouped key-value heads, inside document pieces.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "ops/implementation.h"

namespace trine {

// For each row of a batch, the positions at which a new document piece begins (the first is 0). No token sees another piece.
using PieceStarts = std::vector<std::vector<int64_t>>;

// q: [B, H, S, D]; k, v: [B, KV, S, D]; query head j reads key-value head j / (H/KV). Returns [B, H, S, D] in q's dtype; scale D^-0.5.
// `pieces` empty: each row is one piece. Every token sees at least itself, so no row of the softmax is empty (case E7).
at::Tensor attention(const at::Tensor& q_bhsd, const at::Tensor& k_bksd, const at::Tensor& v_bksd, const PieceStarts& pieces,
                     Implementation implementation = Implementation::kReference);

// The first key that each query sees, int64 [B, S], for trine::attention: the start of its piece. Not defined when `pieces` is empty.
at::Tensor first_visible(const PieceStarts& pieces, int64_t length);

// The registered op trine::attention: query i of row b sees the keys first_visible_bs[b, i] to i (not defined: 0 to i). The result is
// [B, H, S, D] over memory in the order [B, S, H, D]; a query that sees nothing gets zeros (case E7). The CPU kernel takes fp32 and bf16
// of any strides, other dtypes and devices get plain tensor operations. trine::attention_forward also returns lse [B, H, S], the
// logarithm of each softmax's sum, in fp32 (float64 for float64). Errors: shapes, dtypes or devices that do not belong together.
at::Tensor fused_attention(const at::Tensor& q_bhsd, const at::Tensor& k_bksd, const at::Tensor& v_bksd,
                           const at::Tensor& first_visible_bs);

// One step of generation: q: [B, H, T, D] holds the last T positions of k, v: [B, KV, S, D].
at::Tensor attention_with_cache(const at::Tensor& q_bhtd, const at::Tensor& k_bksd, const at::Tensor& v_bksd);

}  // namespace trine
