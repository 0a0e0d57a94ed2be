#include "ops/attention.h"

#include <torch/torch.h>

#include <algorithm>

namespace trine {
namespace {

// [B, KV, S, D] -> [B, H, S, D], each head repeated for its group: 0,0,1,1 and not 0,1,0,1 (case G4).
at::Tensor repeat_heads(const at::Tensor& x_bksd, int64_t num_heads) {
  const int64_t groups = num_heads / x_bksd.size(1);
  if (groups == 1) return x_bksd;
  const auto s = x_bksd.sizes();
  return x_bksd.unsqueeze(2).expand({s[0], s[1], groups, s[2], s[3]}).reshape({s[0], num_heads, s[2], s[3]});
}

// Pieces are computed at lengths that are multiples of this: torch's bf16 kernel keeps generated code for every length that it has met,
// some 0.2 MB each, for ever. The rows added lie behind the piece, where a causal mask hides them from it.
constexpr int64_t kPieceStep = 64;

at::Tensor causal(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  return at::scaled_dot_product_attention(q, k, v, /*attn_mask=*/{}, /*dropout_p=*/0.0, /*is_causal=*/true);
}

bool is_one_piece(const PieceStarts& pieces) {
  for (const auto& row : pieces) {
    if (row.size() > 1) return false;
  }
  return true;
}

}  // namespace

at::Tensor first_visible(const PieceStarts& pieces, int64_t length) {
  if (pieces.empty()) return {};
  at::Tensor result = at::empty({static_cast<int64_t>(pieces.size()), length}, at::kLong);
  int64_t* row = result.data_ptr<int64_t>();
  for (const auto& starts : pieces) {
    for (size_t piece = 0; piece < starts.size(); ++piece) {
      const int64_t end = piece + 1 < starts.size() ? starts[piece + 1] : length;
      std::fill(row + starts[piece], row + end, starts[piece]);
    }
    row += length;
  }
  return result;
}

at::Tensor attention(const at::Tensor& q_bhsd, const at::Tensor& k_bksd, const at::Tensor& v_bksd, const PieceStarts& pieces,
                     Implementation implementation) {
  if (implementation == Implementation::kFused) {
    const at::Tensor first = is_one_piece(pieces) ? at::Tensor() : first_visible(pieces, q_bhsd.size(2)).to(q_bhsd.device());
    return fused_attention(q_bhsd, k_bksd, v_bksd, first);
  }
  const at::Tensor k = repeat_heads(k_bksd, q_bhsd.size(1)), v = repeat_heads(v_bksd, q_bhsd.size(1));
  if (is_one_piece(pieces) && q_bhsd.size(2) % kPieceStep == 0) return causal(q_bhsd, k, v);
  // A causal call for each piece costs Σ length² instead of S², and gives a document the same bits wherever it lies in a row.
  std::vector<at::Tensor> rows;
  for (int64_t b = 0; b < q_bhsd.size(0); ++b) {
    const std::vector<int64_t> starts = pieces.empty() ? std::vector<int64_t>{0} : pieces[static_cast<size_t>(b)];
    std::vector<at::Tensor> parts;
    for (size_t piece = 0; piece < starts.size(); ++piece) {
      const int64_t begin = starts[piece], end = piece + 1 < starts.size() ? starts[piece + 1] : q_bhsd.size(2);
      const int64_t rounded = (end - begin + kPieceStep - 1) / kPieceStep * kPieceStep;
      const auto cut = [&](const at::Tensor& x) {
        const at::Tensor inside = x.narrow(0, b, 1).narrow(2, begin, std::min(rounded, x.size(2) - begin));
        return inside.size(2) == rounded ? inside : at::constant_pad_nd(inside, {0, 0, 0, rounded - inside.size(2)});
      };
      parts.push_back(causal(cut(q_bhsd), cut(k), cut(v)).narrow(2, 0, end - begin));
    }
    rows.push_back(at::cat(parts, 2));
  }
  return rows.size() == 1 ? rows[0] : at::cat(rows, 0);
}

at::Tensor attention_with_cache(const at::Tensor& q_bhtd, const at::Tensor& k_bksd, const at::Tensor& v_bksd) {
  const int64_t num_new = q_bhtd.size(2), length = k_bksd.size(2);
  if (num_new == 1) {
    // Every head of a group sees the same keys and all of them: the group's heads take the place of positions, and no key is copied.
    const int64_t num_groups = k_bksd.size(1), head_dim = q_bhtd.size(3);
    const at::Tensor q_bkgd = q_bhtd.reshape({q_bhtd.size(0), num_groups, q_bhtd.size(1) / num_groups, head_dim});
    return at::scaled_dot_product_attention(q_bkgd, k_bksd, v_bksd).reshape(q_bhtd.sizes());
  }
  const at::Tensor k = repeat_heads(k_bksd, q_bhtd.size(1)), v = repeat_heads(v_bksd, q_bhtd.size(1));
  if (num_new == length) return causal(q_bhtd, k, v);
  const at::Tensor visible_ts = at::ones({num_new, length}, q_bhtd.options().dtype(at::kBool)).tril(length - num_new);
  return at::scaled_dot_product_attention(q_bhtd, k, v, visible_ts);
}

}  // namespace trine
