// Attention written out for tests: head by head and position by position, in the dtype of q, with torch's autograd.
#pragma once

#include <cmath>
#include <limits>

#include "ops/attention.h"
#include "ops/tensor_values.h"
#include "tests/ops/gradients.h"

namespace trine {

struct AttentionResult {
  at::Tensor out, lse, dq, dk, dv;
};

struct AttentionCase {
  at::Tensor q, k, v, dout;  // [B, H, S, D], [B, KV, S, D] twice, [B, H, S, D]
  AttentionCase as(at::ScalarType dtype) const { return {q.to(dtype), k.to(dtype), v.to(dtype), dout.to(dtype)}; }
};
inline AttentionCase attention_case(int64_t rows, int64_t heads, int64_t kv_heads, int64_t length, int64_t head_dim,
                                    at::ScalarType dtype = at::kDouble) {
  return {random_tensor({rows, heads, length, head_dim}, 1, dtype), random_tensor({rows, kv_heads, length, head_dim}, 2, dtype),
          random_tensor({rows, kv_heads, length, head_dim}, 3, dtype), random_tensor({rows, heads, length, head_dim}, 4, dtype)};
}

// Query s of row b sees the keys first_bs[b, s] to s (not defined: from 0). A query that sees nothing gives zeros and −∞.
inline std::pair<at::Tensor, at::Tensor> plain_attention(const at::Tensor& q_bhsd, const at::Tensor& k_bksd, const at::Tensor& v_bksd,
                                                         const at::Tensor& first_bs) {
  const int64_t group = q_bhsd.size(1) / k_bksd.size(1), length = q_bhsd.size(2);
  const double scale = 1 / std::sqrt(static_cast<double>(q_bhsd.size(3)));
  std::vector<at::Tensor> outs, sums;
  for (int64_t b = 0; b < q_bhsd.size(0); ++b) {
    for (int64_t h = 0; h < q_bhsd.size(1); ++h) {
      const at::Tensor q = q_bhsd[b][h], k = k_bksd[b][h / group], v = v_bksd[b][h / group];
      for (int64_t s = 0; s < length; ++s) {
        const int64_t first = first_bs.defined() ? first_bs[b][s].item<int64_t>() : 0;
        if (first > s) {
          outs.push_back(at::zeros({q.size(1)}, q.options()));
          sums.push_back(at::full({}, -std::numeric_limits<double>::infinity(), q.options()));
          continue;
        }
        const at::Tensor scores = k.narrow(0, first, s - first + 1).matmul(q[s]) * scale;
        const at::Tensor weights = scores.exp(), sum = weights.sum();
        outs.push_back((weights / sum).matmul(v.narrow(0, first, s - first + 1)));
        sums.push_back(sum.log());
      }
    }
  }
  return {at::stack(outs).view(q_bhsd.sizes()), at::stack(sums).view(q_bhsd.sizes().slice(0, 3))};
}

// The case's values, however they are rounded, computed in float64.
inline AttentionResult expected_attention(const AttentionCase& given, const at::Tensor& first_bs) {
  const AttentionCase wide = given.as(at::kDouble);
  const at::Tensor q = leaf(wide.q), k = leaf(wide.k), v = leaf(wide.v);
  const auto [out, lse] = plain_attention(q, k, v, first_bs);
  out.backward(wide.dout);
  const auto gradient = [](const at::Tensor& x) { return x.grad().defined() ? x.grad() : at::zeros_like(x); };
  return {out.detach(), lse.detach(), gradient(q), gradient(k), gradient(v)};
}

// trine::attention_forward and _backward as they are.
inline AttentionResult attention_op_results(const AttentionCase& given, const at::Tensor& first_bs) {
  at::NoGradGuard no_grad;
  using Maybe = std::optional<at::Tensor>;
  using T = const at::Tensor&;
  static const auto forward = find_op<std::tuple<at::Tensor, at::Tensor>(T, T, T, const Maybe&)>("trine::attention_forward");
  static const auto backward =
      find_op<std::tuple<at::Tensor, at::Tensor, at::Tensor>(T, T, T, T, T, T, const Maybe&)>("trine::attention_backward");
  const Maybe first = first_bs.defined() ? Maybe(first_bs) : std::nullopt;
  const auto [out, lse] = forward.call(given.q, given.k, given.v, first);
  const auto [dq, dk, dv] = backward.call(given.dout, given.q, given.k, given.v, out, lse, first);
  return {out, lse, dq, dk, dv};
}

inline void expect_same_bits(const AttentionResult& a, const AttentionResult& b) {
  EXPECT_TRUE(at::equal(a.out, b.out));
  EXPECT_TRUE(at::equal(a.lse, b.lse));
  EXPECT_TRUE(at::equal(a.dq, b.dq));
  EXPECT_TRUE(at::equal(a.dk, b.dk));
  EXPECT_TRUE(at::equal(a.dv, b.dv));
}

}  // namespace trine
