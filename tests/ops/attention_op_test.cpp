// trine::attention as a registered op: autograd, strides, documents, threads, shapes and refusals.
#include <ATen/Parallel.h>

#include "tests/ops/attention_reference.h"

namespace trine {
namespace {

constexpr auto kTypes = {at::kFloat, at::kBFloat16, at::kDouble};

at::Tensor run(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const PieceStarts& pieces = {}) {
  return attention(q, k, v, pieces, Implementation::kFused);
}

TEST(AttentionOp, Float64GoesThroughTheReferenceAndItsGradientsAreFiniteDifferences) {
  for (const PieceStarts& pieces : {PieceStarts{}, PieceStarts{{0, 2, 3}, {0, 4}}}) {
    const AttentionCase given = attention_case(2, 4, 2, 5, 4);
    const at::Tensor q = leaf(given.q), k = leaf(given.k), v = leaf(given.v);
    run(q, k, v, pieces).backward(given.dout);
    const auto loss = [&] { return (run(q, k, v, pieces) * given.dout).sum().item<double>(); };
    for (const at::Tensor& x : {q, k, v}) EXPECT_LT(difference(x.grad(), numeric_gradient(loss, x.detach())), 1e-7);
    const at::Tensor first = first_visible(pieces, 5);
    const AttentionResult expected = expected_attention(given, first), op = attention_op_results(given, first);
    EXPECT_LT(difference(op.out, expected.out), 1e-14);
    EXPECT_LT(difference(op.lse, expected.lse), 1e-14);
  }
}

TEST(AttentionOp, AutogradOfTheKernelGivesItsGradients) {
  for (at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const AttentionCase given = attention_case(2, 4, 2, 70, 16, dtype);
    const PieceStarts pieces = {{0, 30}, {0}};
    const at::Tensor q = leaf(given.q), k = leaf(given.k), v = leaf(given.v);
    const at::Tensor out = run(q, k, v, pieces);
    out.backward(given.dout);
    expect_same_bits(attention_op_results(given, first_visible(pieces, 70)),
                     {out.detach(), attention_op_results(given, first_visible(pieces, 70)).lse, q.grad(), k.grad(), v.grad()});
    const AttentionResult expected = expected_attention(given, first_visible(pieces, 70));
    const double tolerance = dtype == at::kFloat ? 1e-6 : 1e-2;
    EXPECT_LT(difference(out, expected.out), tolerance);
    EXPECT_LT(difference(q.grad(), expected.dq), tolerance);
    EXPECT_LT(difference(k.grad(), expected.dk), tolerance);
    EXPECT_LT(difference(v.grad(), expected.dv), tolerance);
  }
}

TEST(AttentionOp, HeadsOfAGroupStandSideBySide) {  // case G4: 0,0,1,1 and not 0,1,0,1
  for (at::ScalarType dtype : kTypes) {
    const AttentionCase given = attention_case(1, 4, 2, 3, 2, dtype);
    const at::Tensor v = torch::tensor({10.0, 20.0}, dtype).view({1, 2, 1, 1}).expand({1, 2, 3, 2});
    const at::Tensor y = run(given.q, given.k, v);
    for (int64_t head = 0; head < 4; ++head) EXPECT_LT(difference(y.select(1, head), at::full({1, 3, 2}, head < 2 ? 10.0 : 20.0)), 1e-6);
  }
}

TEST(AttentionOp, ADocumentsBitsDoNotDependOnTheOneBeforeIt) {  // case D2
  for (at::ScalarType dtype : kTypes) {
    const AttentionCase given = attention_case(1, 4, 2, 200, 16, dtype);
    for (int64_t start : {5, 64, 90, 199}) {
      const at::Tensor first = first_visible({{0, start}}, 200);
      const auto with_first_document = [&](double value) {
        AttentionCase changed = given.as(dtype);
        for (at::Tensor* x : {&changed.q, &changed.k, &changed.v, &changed.dout}) {
          *x = x->clone();
          x->narrow(2, 0, start).fill_(value);
        }
        AttentionResult result = attention_op_results(changed, first);
        for (at::Tensor* x : {&result.out, &result.lse, &result.dq, &result.dk, &result.dv}) *x = x->narrow(2, start, 200 - start);
        return result;
      };
      expect_same_bits(with_first_document(0.5), with_first_document(-7));
    }
  }
}

TEST(AttentionOp, AQueryThatSeesNothingGivesZerosAndFiniteGradients) {  // case E7
  for (at::ScalarType dtype : kTypes) {
    const AttentionCase given = attention_case(3, 2, 1, 70, 8, dtype);
    at::Tensor first = at::zeros({3, 70}, at::kLong);
    first[0].fill_(70);                 // a row of padding
    first[1].narrow(0, 0, 66).fill_(66);  // padding on the left
    first[2][69] = 70;                  // and one such query at the end
    const AttentionResult result = attention_op_results(given, first), expected = expected_attention(given, first);
    const double tolerance = dtype == at::kDouble ? 1e-12 : dtype == at::kFloat ? 1e-6 : 1e-2;
    EXPECT_LT(difference(result.out, expected.out), tolerance);
    EXPECT_LT(difference(result.dq, expected.dq), tolerance);
    EXPECT_LT(difference(result.dk, expected.dk), tolerance);
    EXPECT_LT(difference(result.dv, expected.dv), tolerance);
    EXPECT_EQ(result.out[0].abs().max().item<double>(), 0);
    EXPECT_EQ(result.dq[1].narrow(1, 0, 66).abs().max().item<double>(), 0);
    EXPECT_EQ(result.dk[0].abs().max().item<double>(), 0);
    EXPECT_TRUE(result.lse.isneginf().equal(expected.lse.isneginf()));
  }
}

TEST(AttentionOp, AnyStridesGiveTheSameBitsAndInputsStayAsTheyAre) {
  for (at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const AttentionCase given = attention_case(2, 4, 2, 70, 16, dtype);
    const AttentionResult expected = attention_op_results(given, {});
    const auto by_token = [](const at::Tensor& x) { return x.transpose(1, 2).contiguous().transpose(1, 2); };
    const auto by_column = [](const at::Tensor& x) { return x.transpose(2, 3).contiguous().transpose(2, 3); };
    const auto inside_another = [](const at::Tensor& x) { return at::cat({x, x}, 3).narrow(3, 16, 16); };
    for (const std::function<at::Tensor(const at::Tensor&)>& layout : {std::function(by_token), {by_column}, {inside_another}}) {
      const AttentionCase laid{layout(given.q), layout(given.k), layout(given.v), layout(given.dout)};
      const AttentionResult result = attention_op_results(laid, {});
      expect_same_bits(result, expected);
      EXPECT_TRUE(at::equal(laid.q, given.q) && at::equal(laid.k, given.k) && at::equal(laid.v, given.v));
      EXPECT_TRUE(result.out.transpose(1, 2).is_contiguous()) << "the next layer reads [B, S, H·D]";
    }
    const at::Tensor shared = given.k.narrow(1, 0, 1).expand({2, 2, 70, 16});
    expect_same_bits(attention_op_results({given.q, shared, shared, given.dout}, {}),
                     attention_op_results({given.q, shared.contiguous(), shared.contiguous(), given.dout}, {}));
  }
}

TEST(AttentionOp, BitsDoNotDependOnTheNumberOfThreadsOrOnWhatMemoryHeld) {
  const int threads = at::get_num_threads();
  for (at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const AttentionCase given = attention_case(2, 8, 4, 200, 32, dtype);
    const at::Tensor first = first_visible({{0, 130}, {0}}, 200);
    at::set_num_threads(1);
    const AttentionResult expected = attention_op_results(given, first);
    for (int count : {2, 3}) {
      at::set_num_threads(count);
      for (int64_t size : {1 << 10, 1 << 14, 1 << 18, 1 << 22}) {
        at::full({4, size}, std::numeric_limits<double>::quiet_NaN(), at::TensorOptions(at::kFloat));  // freed at once
      }
      expect_same_bits(attention_op_results(given, first), expected);
    }
  }
  at::set_num_threads(threads);
}

TEST(AttentionOp, ShapesWithoutValuesAndEmptyBatches) {
  const AttentionCase given = attention_case(2, 4, 2, 5, 8, at::kBFloat16);
  const at::Tensor first = at::zeros({2, 5}, at::kLong);
  const auto meta = [](const at::Tensor& x) { return x.to(at::kMeta); };
  const AttentionResult real = attention_op_results(given, first),
                        shapes = attention_op_results({meta(given.q), meta(given.k), meta(given.v), meta(given.dout)}, meta(first));
  const auto expect_alike = [](const at::Tensor& a, const at::Tensor& b) {
    EXPECT_EQ(a.sizes(), b.sizes());
    EXPECT_EQ(a.strides(), b.strides());
    EXPECT_EQ(a.scalar_type(), b.scalar_type());
  };
  expect_alike(real.out, shapes.out);
  expect_alike(real.lse, shapes.lse);
  expect_alike(real.dq, shapes.dq);
  expect_alike(real.dk, shapes.dk);
  expect_alike(real.dv, shapes.dv);
  EXPECT_EQ(real.lse.scalar_type(), at::kFloat);
  for (at::ScalarType dtype : kTypes) {
    EXPECT_EQ(attention_op_results(attention_case(0, 4, 2, 5, 8, dtype), {}).dk.sizes(), at::IntArrayRef({0, 2, 5, 8}));
    EXPECT_EQ(attention_op_results(attention_case(1, 4, 2, 0, 8, dtype), {}).out.sizes(), at::IntArrayRef({1, 4, 0, 8}));
  }
}

TEST(AttentionOp, RefusesWhatDoesNotBelongTogetherAndSaysWhatItFound) {
  const AttentionCase given = attention_case(2, 4, 2, 5, 8, at::kFloat);
  const auto message = [&](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& first) -> std::string {
    try {
      fused_attention(q, k, v, first);
    } catch (const c10::Error& error) {
      return error.what_without_backtrace();
    }
    return "accepted";
  };
  using testing::HasSubstr;
  const at::Tensor three_heads = at::zeros({2, 3, 5, 8}), longer = at::zeros({2, 2, 6, 8});
  EXPECT_THAT(message(given.q[0], given.k, given.v, {}), HasSubstr("found [4, 5, 8]"));
  EXPECT_THAT(message(given.q, longer, longer, {}), HasSubstr("found q [2, 4, 5, 8], k [2, 2, 6, 8]"));
  EXPECT_THAT(message(given.q, given.k, longer, {}), HasSubstr("v [2, 2, 6, 8]"));
  EXPECT_THAT(message(given.q, three_heads, three_heads, {}), HasSubstr("found 4 and 3"));
  EXPECT_THAT(message(given.q, given.k.to(at::kBFloat16), given.v, {}), HasSubstr("found Float, BFloat16 and Float"));
  EXPECT_THAT(message(given.q, given.k.to(at::kMeta), given.v, {}), HasSubstr("found cpu, meta and cpu"));
  EXPECT_THAT(message(given.q, given.k, given.v, at::zeros({2, 5})), HasSubstr("int64 [2, 5] on cpu expected, found Float [2, 5]"));
  EXPECT_THAT(message(given.q, given.k, given.v, at::zeros({5}, at::kLong)), HasSubstr("found Long [5]"));
}

}  // namespace
}  // namespace trine
