#include "ops/attention.h"

#include <cmath>

#include "tests/ops/gradients.h"

namespace trine {
namespace {

// Attention head by head and position by position, with a softmax written out, in the dtype of q (float64 in most tests).
at::Tensor plain_attention(const at::Tensor& q_bhsd, const at::Tensor& k_bksd, const at::Tensor& v_bksd, const PieceStarts& pieces) {
  const int64_t groups = q_bhsd.size(1) / k_bksd.size(1), length = q_bhsd.size(2);
  const double scale = 1 / std::sqrt(static_cast<double>(q_bhsd.size(3)));
  std::vector<at::Tensor> rows;
  for (int64_t b = 0; b < q_bhsd.size(0); ++b) {
    std::vector<at::Tensor> heads;
    for (int64_t h = 0; h < q_bhsd.size(1); ++h) {
      std::vector<at::Tensor> outputs;
      int64_t begin = 0;
      for (int64_t s = 0; s < length; ++s) {
        if (!pieces.empty()) {
          for (int64_t start : pieces[static_cast<size_t>(b)]) begin = start <= s ? start : begin;
        }
        const auto visible = [&](const at::Tensor& x_bksd) { return x_bksd[b][h / groups].narrow(0, begin, s - begin + 1); };
        const at::Tensor k = visible(k_bksd), v = visible(v_bksd);
        const at::Tensor weights = (k.matmul(q_bhsd[b][h][s]) * scale).exp();
        outputs.push_back((weights / weights.sum()).matmul(v));
      }
      heads.push_back(at::stack(outputs));
    }
    rows.push_back(at::stack(heads));
  }
  return at::stack(rows);
}

struct Inputs {
  at::Tensor q, k, v, dy;
};
Inputs inputs(int64_t rows, int64_t heads, int64_t kv_heads, int64_t length, int64_t head_dim, at::ScalarType dtype = at::kDouble) {
  return {leaf(random_tensor({rows, heads, length, head_dim}, 1, dtype)), leaf(random_tensor({rows, kv_heads, length, head_dim}, 2, dtype)),
          leaf(random_tensor({rows, kv_heads, length, head_dim}, 3, dtype)), random_tensor({rows, heads, length, head_dim}, 4, dtype)};
}

TEST(Attention, ValuesAndGradientsEqualThoseWrittenOut) {
  for (const PieceStarts& pieces : {PieceStarts{}, PieceStarts{{0, 3, 4}, {0, 6}}}) {
    Inputs in = inputs(2, 4, 2, 7, 8), plain = inputs(2, 4, 2, 7, 8);
    const at::Tensor y = attention(in.q, in.k, in.v, pieces), expected = plain_attention(plain.q, plain.k, plain.v, pieces);
    EXPECT_LT(difference(y, expected), 1e-12);
    y.backward(in.dy);
    expected.backward(in.dy);
    EXPECT_LT(difference(in.q.grad(), plain.q.grad()), 1e-12);
    EXPECT_LT(difference(in.k.grad(), plain.k.grad()), 1e-12) << "summed over the heads of a group (case G4)";
    EXPECT_LT(difference(in.v.grad(), plain.v.grad()), 1e-12);
  }
}

TEST(Attention, GradientsOfFp32AndBf16AreWithinTheirRounding) {
  for (const auto& [dtype, tolerance] : {std::pair{at::kFloat, 1e-6}, {at::kBFloat16, 1.5e-2}}) {
    Inputs in = inputs(1, 4, 2, 33, 16, dtype);
    const PieceStarts pieces = {{0, 20}};
    const at::Tensor y = attention(in.q, in.k, in.v, pieces);
    EXPECT_EQ(y.scalar_type(), dtype);
    y.backward(in.dy);
    Inputs wide{leaf(in.q.to(at::kDouble)), leaf(in.k.to(at::kDouble)), leaf(in.v.to(at::kDouble)), in.dy.to(at::kDouble)};
    const at::Tensor expected = plain_attention(wide.q, wide.k, wide.v, pieces);
    expected.backward(wide.dy);
    EXPECT_LT(difference(y, expected), tolerance);
    EXPECT_LT(difference(in.q.grad(), wide.q.grad()), tolerance);
    EXPECT_LT(difference(in.k.grad(), wide.k.grad()), tolerance);
    EXPECT_LT(difference(in.v.grad(), wide.v.grad()), tolerance);
  }
}

TEST(Attention, HeadsOfAGroupStandSideBySide) {  // case G4: 0,0,1,1 and not 0,1,0,1
  const at::Tensor q = random_tensor({1, 4, 3, 2}, 1), k = random_tensor({1, 2, 3, 2}, 2);
  const at::Tensor v = torch::tensor({10.0, 20.0}, at::kDouble).view({1, 2, 1, 1}).expand({1, 2, 3, 2}).contiguous();
  const at::Tensor y = attention(q, k, v, {});
  for (int64_t head = 0; head < 4; ++head) EXPECT_LT(difference(y.select(1, head), at::full({1, 3, 2}, head < 2 ? 10.0 : 20.0)), 1e-12);
}

TEST(Attention, ADocumentHasTheSameBitsWhereverItLiesAndWhateverLiesBeforeIt) {  // case D2
  for (at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const Inputs in = inputs(1, 4, 2, 14, 16, dtype);
    const at::Tensor packed = attention(in.q, in.k, in.v, {{0, 5}});
    const auto second = [](const at::Tensor& x) { return x.detach().narrow(2, 5, 9); };
    const auto second_first = [&](const at::Tensor& x) { return at::cat({second(x), x.detach().narrow(2, 0, 5)}, 2); };
    const at::Tensor moved = attention(second_first(in.q), second_first(in.k), second_first(in.v), {{0, 9}});
    EXPECT_TRUE(at::equal(packed.narrow(2, 5, 9), moved.narrow(2, 0, 9)));
    const at::Tensor alone = attention(second(in.q), second(in.k), second(in.v), {});
    EXPECT_LT(difference(packed.narrow(2, 5, 9), alone), dtype == at::kFloat ? 1e-6 : 1e-2);

    at::Tensor other_k = in.k.detach().clone(), other_v = in.v.detach().clone();
    other_k.narrow(2, 0, 5).fill_(7);
    other_v.narrow(2, 0, 5).fill_(7);
    EXPECT_TRUE(at::equal(attention(in.q, other_k, other_v, {{0, 5}}).narrow(2, 5, 9), packed.narrow(2, 5, 9)));
  }
}

TEST(Attention, PaddingIsAPieceOfItsOwnAndStaysFinite) {  // case E7: a row of padding alone, and padding on either side
  for (at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    Inputs in = inputs(3, 2, 1, 6, 8, dtype);
    const at::Tensor y = attention(in.q, in.k, in.v, {{0}, {0, 2}, {0, 4}});
    at::Tensor dy = in.dy.clone();
    dy[0].zero_();  // padding takes no part in the loss
    dy[1].narrow(1, 0, 2).zero_();
    dy[2].narrow(1, 4, 2).zero_();
    y.backward(dy);
    for (const at::Tensor& x : {y, in.q.grad(), in.k.grad(), in.v.grad()}) EXPECT_TRUE(x.isfinite().all().item<bool>());
    EXPECT_EQ(in.v.grad()[0].abs().max().item<double>(), 0);
    EXPECT_EQ(in.k.grad()[1].narrow(1, 0, 2).abs().max().item<double>(), 0);
  }
}

TEST(AttentionWithCache, EveryCutOfASequenceGivesTheSameAsTheWhole) {
  for (const auto& [dtype, tolerance] : {std::pair{at::kDouble, 1e-12}, {at::kFloat, 1e-6}, {at::kBFloat16, 1.5e-2}}) {
    const Inputs in = inputs(1, 4, 2, 9, 8, dtype);
    const at::Tensor whole = attention(in.q, in.k, in.v, {});
    for (const auto& cuts : {std::vector<int64_t>{9}, {5, 1, 1, 1, 1}, {2, 3, 4}}) {
      int64_t done = 0;
      for (int64_t num_new : cuts) {
        const int64_t length = done + num_new;
        const at::Tensor y = attention_with_cache(in.q.narrow(2, done, num_new), in.k.narrow(2, 0, length), in.v.narrow(2, 0, length));
        EXPECT_LT(difference(y, whole.narrow(2, done, num_new)), tolerance) << done << " + " << num_new;
        done = length;
      }
    }
  }
}

}  // namespace
}  // namespace trine
