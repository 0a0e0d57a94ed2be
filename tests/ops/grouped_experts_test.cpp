#include "ops/grouped_experts.h"

#include "ops/expert_order_cpu.h"
#include "ops/expert_rows_cpu.h"
#include "ops/router.h"
#include "tests/ops/gradients.h"

namespace trine {
namespace {

constexpr Implementation kBoth[] = {Implementation::kReference, Implementation::kFused};

struct Sizes {
  int64_t tokens, experts, top_k, hidden, inner;
};

// A mixture's inputs in float64, with different experts for one token's choices.
struct Inputs {
  at::Tensor x, gate_up, down, experts, weights, dy;

  Inputs to(at::ScalarType dtype) const {
    const auto cast = [&](const at::Tensor& tensor) { return tensor.detach().to(dtype).clone().requires_grad_(tensor.requires_grad()); };
    const at::ScalarType weights_dtype = dtype == at::kDouble ? at::kDouble : at::kFloat;
    return {cast(x), cast(gate_up), cast(down), experts, leaf(weights.to(weights_dtype)), dy.to(dtype)};
  }
};

Inputs make_inputs(const Sizes& s) {
  const at::Tensor order = s.tokens ? random_tensor({s.tokens, s.experts}, 5).argsort(-1, false) : at::empty({0, s.experts}, at::kLong);
  return {leaf(random_tensor({s.tokens, s.hidden}, 1)), leaf(random_tensor({s.experts, 2 * s.inner, s.hidden}, 2) * 0.5),
          leaf(random_tensor({s.experts, s.hidden, s.inner}, 3) * 0.5), order.narrow(1, 0, s.top_k).contiguous(),
          leaf(random_tensor({s.tokens, s.top_k}, 4).abs()), random_tensor({s.tokens, s.hidden}, 6)};
}

at::Tensor run(const Inputs& in, Implementation implementation, GradientSink* gate_up_sink = nullptr, GradientSink* down_sink = nullptr) {
  return grouped_experts(in.x, in.gate_up, in.down, in.experts, in.weights, gate_up_sink, down_sink, implementation);
}

// Token by token from the definition; no sorting, no batching.
at::Tensor token_by_token(const Inputs& in) {
  const int64_t inner = in.down.size(2);
  std::vector<at::Tensor> rows;
  for (int64_t t = 0; t < in.x.size(0); ++t) {
    at::Tensor sum = at::zeros_like(in.x[t]);
    for (int64_t j = 0; j < in.experts.size(1); ++j) {
      const int64_t e = in.experts[t][j].item<int64_t>();
      const at::Tensor gate = in.gate_up[e].narrow(0, 0, inner).mv(in.x[t]), up = in.gate_up[e].narrow(0, inner, inner).mv(in.x[t]);
      sum = sum + in.weights[t][j] * in.down[e].mv(gate / (1 + (-gate).exp()) * up);
    }
    rows.push_back(sum);
  }
  return rows.empty() ? at::zeros_like(in.x) : at::stack(rows);
}

struct Result {
  at::Tensor y, dx, dgate_up, ddown, dweights;
};

Result forward_backward(const Inputs& in, Implementation implementation) {
  const at::Tensor y = run(in, implementation);
  y.backward(in.dy);
  return {y.detach(), in.x.grad(), in.gate_up.grad(), in.down.grad(), in.weights.grad()};
}

void expect_close(const Result& got, const Result& expected, double tolerance) {
  EXPECT_LT(difference(got.y, expected.y), tolerance);
  EXPECT_LT(difference(got.dx, expected.dx), tolerance);
  EXPECT_LT(difference(got.dgate_up, expected.dgate_up), tolerance);
  EXPECT_LT(difference(got.ddown, expected.ddown), tolerance);
  EXPECT_LT(difference(got.dweights, expected.dweights), tolerance);
}

void expect_equal(const Result& got, const Result& expected) {
  EXPECT_TRUE(at::equal(got.y, expected.y));
  EXPECT_TRUE(at::equal(got.dx, expected.dx));
  EXPECT_TRUE(at::equal(got.dgate_up, expected.dgate_up));
  EXPECT_TRUE(at::equal(got.ddown, expected.ddown));
  EXPECT_TRUE(at::equal(got.dweights, expected.dweights));
}

TEST(GroupedExperts, ValuesAndGradientsEqualFiniteDifferences) {
  for (Implementation implementation : kBoth) {
    Inputs in = make_inputs({.tokens = 4, .experts = 3, .top_k = 2, .hidden = 3, .inner = 2});
    const Result got = forward_backward(in, implementation);
    EXPECT_LT(difference(got.y, token_by_token(in)), 1e-14);
    const auto f = [&] {
      at::NoGradGuard no_grad;
      return (token_by_token(in) * in.dy).sum().item<double>();
    };
    EXPECT_LT(difference(got.dx, numeric_gradient(f, in.x)), 1e-8);
    EXPECT_LT(difference(got.dgate_up, numeric_gradient(f, in.gate_up)), 1e-8);
    EXPECT_LT(difference(got.ddown, numeric_gradient(f, in.down)), 1e-8);
    EXPECT_LT(difference(got.dweights, numeric_gradient(f, in.weights)), 1e-8);
  }
}

const Sizes kSizes[] = {
    {1, 1, 1, 5, 3}, {1, 6, 4, 9, 7}, {9, 1, 1, 17, 5}, {13, 4, 4, 31, 19}, {40, 5, 1, 8, 8}, {70, 8, 3, 33, 65}, {300, 2, 1, 20, 12},
    {600, 3, 2, 24, 40},
};

TEST(GroupedExperts, EverySizeAndDtypeEqualsFloat64) {
  for (const Sizes& sizes : kSizes) {
    SCOPED_TRACE(fmt::format("T {} E {} k {} H {} I {}", sizes.tokens, sizes.experts, sizes.top_k, sizes.hidden, sizes.inner));
    const Inputs in = make_inputs(sizes);
    const Result expected = forward_backward(in.to(at::kDouble), Implementation::kReference);
    for (Implementation implementation : kBoth) {
      expect_close(forward_backward(in.to(at::kDouble), implementation), expected, 1e-13);
      expect_close(forward_backward(in.to(at::kFloat), implementation), expected, 3e-6);
      // The same rounded inputs in float64: what is left is the rounding of products, of which a gradient has seen three.
      const Inputs narrow = in.to(at::kBFloat16);
      const Result rounded = forward_backward(narrow.to(at::kDouble), Implementation::kReference);
      expect_close(forward_backward(narrow, implementation), rounded, 1.5e-2);
    }
  }
}

TEST(GroupedExperts, InputsMayNeedNoGradientAndStayAsTheyAre) {
  const Inputs in = make_inputs({.tokens = 20, .experts = 4, .top_k = 2, .hidden = 16, .inner = 8}).to(at::kFloat);
  Inputs frozen = in;
  frozen.x = in.x.detach().clone();
  frozen.down = in.down.detach().clone();
  const at::Tensor x_before = frozen.x.clone(), experts_before = frozen.experts.clone();
  run(frozen, Implementation::kFused).backward(frozen.dy);
  EXPECT_TRUE(at::equal(frozen.x, x_before) && at::equal(frozen.experts, experts_before));
  EXPECT_FALSE(frozen.down.grad().defined());
  const Inputs all = in.to(at::kFloat);
  run(all, Implementation::kReference).backward(all.dy);
  EXPECT_LT(difference(frozen.gate_up.grad(), all.gate_up.grad()), 3e-6);
}

TEST(GroupedExperts, TakesStridedInputs) {
  const Inputs in = make_inputs({.tokens = 21, .experts = 4, .top_k = 2, .hidden = 16, .inner = 8}).to(at::kFloat);
  const Result expected = forward_backward(in.to(at::kFloat), Implementation::kFused);
  Inputs strided = in.to(at::kFloat);
  const auto turned = [](const at::Tensor& x) { return x.detach().transpose(-1, -2).contiguous().transpose(-1, -2).requires_grad_(); };
  strided.x = turned(in.x);
  strided.gate_up = turned(in.gate_up);
  strided.down = turned(in.down);
  strided.experts = turned(in.experts.to(at::kDouble)).detach().to(at::kLong, false, true);
  strided.weights = turned(in.weights);
  strided.dy = turned(in.dy).detach();
  expect_close(forward_backward(strided, Implementation::kFused), expected, 1e-6);
}

// Memory that the allocator hands out next is full of NaN.
void spoil_free_memory() {
  for (int64_t count : {int64_t{1} << 12, int64_t{1} << 16, int64_t{1} << 20}) {
    std::vector<at::Tensor> spoilt;
    for (int i = 0; i < 16; ++i) spoilt.push_back(at::full({count}, std::numeric_limits<double>::quiet_NaN(), at::kFloat));
  }
}

TEST(GroupedExperts, ExpertsWithoutTokensGetExactlyZeroFromDirtyMemory) {  // case F3
  for (at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    Inputs in = make_inputs({.tokens = 12, .experts = 6, .top_k = 1, .hidden = 64, .inner = 32}).to(dtype);
    in.experts = torch::tensor({0, 2, 2, 0, 2, 2, 0, 2, 0, 2, 2, 0}, at::kLong).unsqueeze(1);  // sizes [5, 0, 7, 0, 0, 0]
    const Result expected = forward_backward(in.to(at::kDouble), Implementation::kReference);
    for (Implementation implementation : kBoth) {
      spoil_free_memory();
      const Result got = forward_backward(in.to(dtype), implementation);
      expect_close(got, expected, dtype == at::kFloat ? 3e-6 : 1.5e-2);
      for (int64_t e : {1, 3, 4, 5}) {
        EXPECT_TRUE(at::equal(got.dgate_up[e], at::zeros({64, 64}, dtype)));
        EXPECT_TRUE(at::equal(got.ddown[e], at::zeros({64, 32}, dtype)));
      }
      GradientSink gate_up_sink = dirty_sink(in.gate_up), down_sink = dirty_sink(in.down);
      gate_up_sink.begin_step();
      down_sink.begin_step();
      run(in.to(dtype), implementation, &gate_up_sink, &down_sink).backward(in.dy);
      EXPECT_TRUE(at::equal(gate_up_sink.gradient(), got.dgate_up) && at::equal(down_sink.gradient(), got.ddown));
    }
  }
}

TEST(GroupedExperts, WithoutTokensEveryGradientIsZeroOfFullShape) {  // case F5
  for (Implementation implementation : kBoth) {
    const Inputs in = make_inputs({.tokens = 0, .experts = 3, .top_k = 2, .hidden = 8, .inner = 4}).to(at::kFloat);
    spoil_free_memory();
    const Result got = forward_backward(in, implementation);
    EXPECT_EQ(got.y.sizes(), at::IntArrayRef({0, 8}));
    EXPECT_TRUE(at::equal(got.dgate_up, at::zeros({3, 8, 8})) && at::equal(got.ddown, at::zeros({3, 8, 4})));
  }
}

TEST(GroupedExperts, AllTokensMayGoToOneExpert) {
  Inputs in = make_inputs({.tokens = 700, .experts = 4, .top_k = 1, .hidden = 32, .inner = 24});
  in.experts = at::full({700, 1}, 3, at::kLong);
  expect_close(forward_backward(in.to(at::kFloat), Implementation::kFused), forward_backward(in, Implementation::kReference), 3e-6);
}

TEST(GroupedExperts, MoreRowsThanBackwardHoldsAtATime) {
  // 3 choices of 3,000 tokens are 9,000 rows, in waves of at most 4,096.
  const Inputs in = make_inputs({.tokens = 3000, .experts = 7, .top_k = 3, .hidden = 16, .inner = 8});
  expect_close(forward_backward(in.to(at::kFloat), Implementation::kFused), forward_backward(in, Implementation::kReference), 3e-6);
}

TEST(GroupedExperts, SinksStoreTheFirstGradientAndAddLaterOnes) {
  for (Implementation implementation : kBoth) {
    for (at::ScalarType gradient_dtype : {at::kFloat, at::kBFloat16}) {
      SCOPED_TRACE(c10::toString(gradient_dtype));
      const Inputs in = make_inputs({.tokens = 30, .experts = 5, .top_k = 2, .hidden = 16, .inner = 8}).to(gradient_dtype);
      Inputs other = in.to(gradient_dtype);
      other.experts = at::full_like(in.experts, 1);  // the second micro-batch reaches one expert only
      const Result first = forward_backward(in.to(gradient_dtype), implementation), second = forward_backward(other, implementation);
      GradientSink gate_up_sink = dirty_sink(in.gate_up, at::kFloat), down_sink = dirty_sink(in.down, gradient_dtype);
      for (int step = 0; step < 2; ++step) {
        gate_up_sink.begin_step();
        down_sink.begin_step();
        const Inputs again = in.to(gradient_dtype), other_again = other.to(gradient_dtype);
        run(again, implementation, &gate_up_sink, &down_sink).backward(again.dy);
        run(other_again, implementation, &gate_up_sink, &down_sink).backward(other_again.dy);
        EXPECT_FALSE(again.gate_up.grad().defined() || again.down.grad().defined()) << "autograd must not count them again";
        EXPECT_LT(difference(again.x.grad(), first.dx), 1e-6);
        const double unit = gradient_dtype == at::kFloat ? 1e-6 : 4e-3;
        EXPECT_LT(difference(gate_up_sink.gradient(), first.dgate_up.to(at::kDouble) + second.dgate_up.to(at::kDouble)), unit);
        EXPECT_LT(difference(down_sink.gradient(), first.ddown.to(at::kDouble) + second.ddown.to(at::kDouble)), unit);
      }
    }
  }
}

TEST(GroupedExperts, TheRoutersLogitsGetTheirGradientThroughTheWeights) {
  const Inputs in = make_inputs({.tokens = 10, .experts = 6, .top_k = 2, .hidden = 8, .inner = 4});
  const at::Tensor logits = random_tensor({10, 6}, 9);
  const auto gradient = [&](at::ScalarType dtype, Implementation implementation, bool norm) {
    Inputs cast = in.to(dtype);
    const at::Tensor routed = leaf(logits.to(dtype));
    const Routing routing = router(routed, {.top_k = 2, .norm_topk_prob = norm}, implementation);
    cast.experts = routing.experts_tk;
    cast.weights = routing.weights_tk;
    run(cast, implementation).backward(cast.dy);
    return routed.grad();
  };
  for (bool norm : {false, true}) {
    at::Tensor values = logits.clone();
    const auto f = [&] {
      Inputs moved = in;
      const Routing routing = router(values, {.top_k = 2, .norm_topk_prob = norm});
      moved.experts = routing.experts_tk;
      moved.weights = routing.weights_tk;
      at::NoGradGuard no_grad;
      return (token_by_token(moved) * in.dy).sum().item<double>();
    };
    const at::Tensor expected = numeric_gradient(f, values);
    for (Implementation implementation : kBoth) {
      EXPECT_LT(difference(gradient(at::kDouble, implementation, norm), expected), 1e-8);
      EXPECT_LT(difference(gradient(at::kFloat, implementation, norm), expected), 1e-5);
    }
  }
}

TEST(GroupedExperts, EveryNumberOfThreadsGivesTheSameBits) {
  const int threads = at::get_num_threads();
  for (const Sizes& sizes : {Sizes{512, 16, 4, 96, 64}, Sizes{700, 1, 1, 64, 48}, Sizes{1, 8, 2, 64, 48}}) {
    for (at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      const Inputs in = make_inputs(sizes).to(dtype);
      at::set_num_threads(1);
      const Result expected = forward_backward(in.to(dtype), Implementation::kFused);
      for (int count : {2, 3}) {
        at::set_num_threads(count);
        expect_equal(forward_backward(in.to(dtype), Implementation::kFused), expected);
      }
      at::set_num_threads(threads);
    }
  }
}

TEST(GroupedExperts, RefusesWhatItCannotDo) {
  const Inputs good = make_inputs({.tokens = 3, .experts = 4, .top_k = 2, .hidden = 6, .inner = 5}).to(at::kFloat);
  for (Implementation implementation : kBoth) {
    const auto refuses = [&](const auto& spoil) {
      Inputs in = good;
      spoil(in);
      EXPECT_THROW(run(in, implementation), c10::Error);
    };
    refuses([](Inputs& in) { in.experts = in.experts.clone().fill_(4); });
    refuses([](Inputs& in) { in.experts = in.experts.clone().fill_(-1); });
    refuses([](Inputs& in) { in.experts = in.experts.to(at::kInt); });
    refuses([](Inputs& in) { in.experts = in.experts.narrow(1, 0, 1); });
    refuses([](Inputs& in) { in.gate_up = in.gate_up.narrow(1, 0, 8); });
    refuses([](Inputs& in) { in.down = in.down.transpose(1, 2); });
    refuses([](Inputs& in) { in.down = in.down.to(at::kBFloat16); });
    refuses([](Inputs& in) { in.x = in.x[0]; });
    GradientSink sink = dirty_sink(good.gate_up);
    EXPECT_THROW(run(good, implementation, &sink, nullptr), c10::Error);
  }
}

TEST(ExpertOrder, SortsChoicesByExpertKeepsTheirOrderAndPadsEachExpert) {
  const std::vector<int64_t> experts = {2, 0, 2, 2, 0, 4};
  const ExpertOrder order = order_by_expert(experts.data(), 6, 5);
  EXPECT_EQ(order.begin, (std::vector<int64_t>{0, 8, 8, 16, 16, 24}));
  EXPECT_EQ(order.row, (std::vector<int64_t>{8, 0, 9, 10, 1, 16}));
  EXPECT_EQ(order.choice[8], 0);
  EXPECT_EQ(order.choice[9], 2);
  EXPECT_EQ(order.choice[10], 3);
  EXPECT_EQ(order.choice[11], -1);
  EXPECT_LE(order.begin.back(), most_expert_rows<int64_t>(6, 5));
  EXPECT_EQ(most_expert_rows<int64_t>(0, 5), 0);
}

template <class Value>
void expect_same_bits_for_every_set(at::ScalarType dtype) {
  constexpr int64_t kRows = 7, kInner = 53;
  const at::Tensor gate_up = random_tensor({kRows, 2 * kInner}, 1, dtype) * 3, dact = random_tensor({kRows, kInner}, 2, dtype);
  const at::Tensor weights = random_tensor({kRows}, 3, at::kFloat);
  const std::vector<int64_t> choices = {4, 0, 6, -1, 2, 5, -1}, rows = {1, 6, 4, 0, 5, 2, 3, 1};
  const auto values = [](const at::Tensor& tensor) { return static_cast<Value*>(tensor.mutable_data_ptr()); };
  const auto run = [&](InstructionSet set) {
    std::vector<at::Tensor> out = {dact.clone(), at::empty_like(gate_up), at::zeros({kRows}), at::empty({4, kInner}, dtype)};
    expert_activation_backward_cpu<Value>({values(gate_up), values(out[0]), choices.data(), weights.const_data_ptr<float>(), kRows, kInner},
                                          values(out[0]), values(out[1]), out[2].mutable_data_ptr<float>(), set);
    combine_rows_cpu<Value>(values(dact), rows.data(), weights.const_data_ptr<float>(), 2, 0, 3, kInner, values(out[3]), set);
    combine_rows_cpu<Value>(values(dact), rows.data(), nullptr, 2, 3, 4, kInner, values(out[3]), set);
    return out;
  };
  const auto expected = run(InstructionSet::kPortable);
  for (InstructionSet set : {InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    if (set > instruction_set()) continue;
    const auto got = run(set);
    for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(at::equal(got[i], expected[i])) << "result " << i;
  }
}

TEST(ExpertRows, EveryInstructionSetGivesTheSameBits) {
  expect_same_bits_for_every_set<float>(at::kFloat);
  expect_same_bits_for_every_set<BFloat16Bits>(at::kBFloat16);
}

}  // namespace
}  // namespace trine
