// Causal attention with grouped key-value heads, inside document pieces.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace trine {

// For each row of a batch, the positions at which a new document piece begins (the first is 0). No token sees another piece.
using PieceStarts = std::vector<std::vector<int64_t>>;

// q: [B, H, S, D]; k, v: [B, KV, S, D]; query head j reads key-value head j / (H/KV). Returns [B, H, S, D] in q's dtype; scale D^-0.5.
// `pieces` empty: each row is one piece. Every token sees at least itself, so no row of the softmax is empty (case E7).
at::Tensor attention(const at::Tensor& q_bhsd, const at::Tensor& k_bksd, const at::Tensor& v_bksd, const PieceStarts& pieces);

// One step of generation: q: [B, H, T, D] holds the last T positions of k, v: [B, KV, S, D].
at::Tensor attention_with_cache(const at::Tensor& q_bhtd, const at::Tensor& k_bksd, const at::Tensor& v_bksd);

}  // namespace trine
