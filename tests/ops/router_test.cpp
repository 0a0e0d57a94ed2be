#include "ops/router.h"

#include "ops/router_cpu.h"
#include "tests/ops/gradients.h"

namespace trine {
namespace {

constexpr Implementation kBoth[] = {Implementation::kReference, Implementation::kFused};

// Softmax, selection by repeated search, weights: from the definition, in float64, without a sort.
Routing plain_routing(const at::Tensor& logits_te, const RouterOptions& options) {
  const at::Tensor wide = logits_te.to(at::kDouble), exps = (wide - wide.amax(-1, true)).exp(), probs = exps / exps.sum(-1, true);
  at::Tensor left = options.bias ? probs + options.bias->to(at::kDouble) : probs.clone();
  at::Tensor experts = at::empty({probs.size(0), options.top_k}, at::kLong);
  for (int64_t j = 0; j < options.top_k; ++j) {
    const at::Tensor best = left.argmax(-1);
    experts.select(1, j).copy_(best);
    left.scatter_(1, best.unsqueeze(1), -1e9);
  }
  at::Tensor weights = probs.gather(1, experts);
  if (options.norm_topk_prob) weights = weights / weights.sum(-1, true);
  return {weights, experts, probs};
}

TEST(Router, DividesByTheChosenSumOnlyIfAskedTo) {  // case A8
  const at::Tensor logits = torch::tensor({{2.0f, 1.0f, 0.0f, -1.0f}});
  for (Implementation implementation : kBoth) {
    const Routing normed = router(logits, {.top_k = 2, .norm_topk_prob = true}, implementation);
    EXPECT_TRUE(at::allclose(normed.weights_tk, torch::tensor({{0.731059f, 0.268941f}}), 0, 1e-6));
    const Routing plain = router(logits, {.top_k = 2, .norm_topk_prob = false}, implementation);
    EXPECT_TRUE(at::allclose(plain.weights_tk, torch::tensor({{0.643914f, 0.236883f}}), 0, 1e-6));
    EXPECT_TRUE(at::equal(plain.experts_tk, torch::tensor({{0, 1}}, at::kLong)));
  }
}

TEST(Router, EqualsItsDefinitionForEverySizeAndDtype) {
  struct Case {
    int64_t num_tokens, num_experts, top_k;
  };
  for (const auto& [num_tokens, num_experts, top_k] : {Case{0, 4, 2}, {1, 1, 1}, {5, 7, 7}, {33, 128, 8}, {300, 17, 3}}) {
    for (at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
      for (bool norm : {false, true}) {
        SCOPED_TRACE(fmt::format("T {} E {} k {} {} norm {}", num_tokens, num_experts, top_k, c10::toString(dtype), norm));
        const at::Tensor logits = (3 * random_tensor({num_tokens, num_experts}, 1)).to(dtype);
        const RouterOptions options{.top_k = top_k, .norm_topk_prob = norm};
        for (Implementation implementation : kBoth) {
          const Routing got = router(logits, options, implementation);
          ASSERT_EQ(got.weights_tk.scalar_type(), dtype == at::kDouble ? at::kDouble : at::kFloat);
          EXPECT_LT(difference(got.probs_te, plain_routing(logits, options).probs_te), 1e-6);
          // bf16 logits tie; the lower index goes first, as argmax has it too.
          EXPECT_TRUE(at::equal(got.experts_tk, plain_routing(logits, options).experts_tk));
          EXPECT_LT(difference(got.weights_tk, plain_routing(logits, options).weights_tk), 1e-6);
        }
      }
    }
  }
}

TEST(Router, TakesTheLowerIndexOfEqualProbabilities) {
  const at::Tensor logits = torch::tensor({{1.0f, 2.0f, 1.0f, 2.0f, 2.0f, 0.0f}, {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f}});
  const at::Tensor expected = torch::tensor({{1, 3, 4, 0}, {0, 1, 2, 3}}, at::kLong);
  for (Implementation implementation : kBoth) EXPECT_TRUE(at::equal(router(logits, {.top_k = 4}, implementation).experts_tk, expected));
}

TEST(Router, ABiasChangesTheChoiceAndNotTheWeights) {
  const at::Tensor logits = random_tensor({40, 9}, 1, at::kFloat), bias = random_tensor({9}, 2, at::kFloat) * 0.1;
  const RouterOptions options{.top_k = 3, .norm_topk_prob = true, .bias = bias};
  const Routing expected = plain_routing(logits, options);
  ASSERT_FALSE(at::equal(expected.experts_tk, plain_routing(logits, {.top_k = 3}).experts_tk)) << "this bias must matter";
  for (Implementation implementation : kBoth) {
    const Routing got = router(logits, options, implementation);
    EXPECT_TRUE(at::equal(got.experts_tk, expected.experts_tk));
    EXPECT_LT(difference(got.weights_tk, expected.weights_tk), 1e-6);
  }
}

TEST(Router, ForcedBalanceGivesEveryExpertItsShareInTurn) {
  const at::Tensor logits = random_tensor({8, 4}, 1, at::kFloat);
  for (Implementation implementation : kBoth) {
    const Routing got = router(logits, {.top_k = 3, .force_balance = true}, implementation);
    EXPECT_TRUE(at::equal(got.experts_tk.view({-1}), at::arange(24, at::kLong).remainder(4)));
    EXPECT_TRUE(at::equal(count_expert_loads(got.experts_tk, 4), at::full({4}, 6, at::kLong)));
    EXPECT_TRUE(at::equal(got.weights_tk, got.probs_te.gather(1, got.experts_tk)));
  }
}

TEST(Router, GradientsThroughWeightsAndProbabilitiesEqualFiniteDifferences) {
  for (bool norm : {false, true}) {
    const RouterOptions options{.top_k = 3, .norm_topk_prob = norm};
    at::Tensor logits = leaf(random_tensor({5, 7}, 1));
    const at::Tensor dweights = random_tensor({5, 3}, 2), dprobs = random_tensor({5, 7}, 3);
    const auto f = [&] {
      const Routing r = plain_routing(logits, options);
      return ((r.weights_tk * dweights).sum() + (r.probs_te * dprobs).sum()).item<double>();
    };
    const at::Tensor expected = numeric_gradient(f, logits);
    for (Implementation implementation : kBoth) {
      for (at::ScalarType dtype : {at::kDouble, at::kFloat, at::kBFloat16}) {
        const at::Tensor x = leaf(logits.to(dtype));
        const Routing r = router(x, options, implementation);
        ((r.weights_tk * dweights).sum() + (r.probs_te * dprobs).sum()).backward();
        ASSERT_EQ(x.grad().scalar_type(), dtype);
        EXPECT_LT(difference(x.grad(), expected), dtype == at::kDouble ? 1e-8 : dtype == at::kFloat ? 2e-6 : 2e-2) << c10::toString(dtype);
      }
    }
  }
}

TEST(Router, WithOneChoiceAndNormalisationNothingReachesTheLogits) {  // case F2
  const auto gradient_norm = [](int64_t top_k, bool norm, Implementation implementation) {
    const at::Tensor logits = leaf(random_tensor({6, 8}, 1, at::kFloat));
    const Routing r = router(logits, {.top_k = top_k, .norm_topk_prob = norm}, implementation);
    (r.weights_tk * random_tensor({6, top_k}, 2, at::kFloat)).sum().backward();
    return logits.grad().norm().item<double>();
  };
  for (Implementation implementation : kBoth) {
    EXPECT_LT(gradient_norm(1, true, implementation), 1e-6);
    EXPECT_GT(gradient_norm(1, false, implementation), 1e-2);
    EXPECT_GT(gradient_norm(2, true, implementation), 1e-2);
  }
}

TEST(Router, ATokenGoneWrongHasKExpertsAndShowsIt) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Routing r = router(torch::tensor({{nan, 1.0f, 2.0f}, {0.0f, 1.0f, 2.0f}}), {.top_k = 2}, Implementation::kFused);
  EXPECT_TRUE(r.weights_tk[0].isnan().all().item<bool>());
  EXPECT_TRUE(at::equal(r.experts_tk, torch::tensor({{0, 1}, {2, 1}}, at::kLong)));
  EXPECT_FALSE(r.weights_tk[1].isnan().any().item<bool>());
}

TEST(Router, RefusesWhatItCannotDo) {
  const at::Tensor logits = at::zeros({2, 4});
  for (Implementation implementation : kBoth) {
    EXPECT_THROW(router(logits, {.top_k = 5}, implementation), c10::Error);
    EXPECT_THROW(router(logits, {.top_k = 0}, implementation), c10::Error);
    EXPECT_THROW(router(logits[0], {.top_k = 1}, implementation), c10::Error);
    EXPECT_THROW(router(logits, {.top_k = 1, .bias = at::zeros({3})}, implementation), c10::Error);
    EXPECT_THROW(router(logits.to(at::kLong), {.top_k = 1}, implementation), c10::Error);
  }
}

TEST(Router, EveryInstructionSetAndNumberOfThreadsGivesTheSameBits) {
  const at::Tensor logits = random_tensor({999, 61}, 1, at::kFloat), dweights = random_tensor({999, 5}, 2, at::kFloat);
  const auto run = [&](InstructionSet set) {
    Routing r{at::empty({999, 5}), at::empty({999, 5}, at::kLong), at::empty({999, 61})};
    const RouterRows rows{0, 999, 61, 5, true};
    router_rows_cpu(rows, logits.const_data_ptr<float>(), nullptr, false, r.weights_tk.mutable_data_ptr<float>(),
                    r.experts_tk.mutable_data_ptr<int64_t>(), r.probs_te.mutable_data_ptr<float>(), set);
    at::Tensor dlogits = at::empty({999, 61});
    router_backward_rows_cpu(rows, dweights.const_data_ptr<float>(), r.probs_te.const_data_ptr<float>(), r.probs_te.const_data_ptr<float>(),
                             r.experts_tk.const_data_ptr<int64_t>(), dlogits.mutable_data_ptr<float>(), set);
    return std::tuple(r, dlogits);
  };
  const auto [expected, expected_gradient] = run(InstructionSet::kPortable);
  for (InstructionSet set : {InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    if (set > instruction_set()) continue;
    const auto [got, gradient] = run(set);
    EXPECT_TRUE(at::equal(got.weights_tk, expected.weights_tk));
    EXPECT_TRUE(at::equal(got.experts_tk, expected.experts_tk));
    EXPECT_TRUE(at::equal(got.probs_te, expected.probs_te));
    EXPECT_TRUE(at::equal(gradient, expected_gradient));
  }
  EXPECT_TRUE(at::equal(router(logits, {.top_k = 5, .norm_topk_prob = true}, Implementation::kFused).weights_tk, expected.weights_tk));
}

TEST(CountExpertLoads, LeavesMaskedTokensOut) {
  const at::Tensor experts = torch::tensor({{0, 3}, {3, 1}, {3, 0}}, at::kLong);
  EXPECT_TRUE(at::equal(count_expert_loads(experts, 5), torch::tensor({2, 1, 0, 3, 0}, at::kLong)));
  EXPECT_TRUE(at::equal(count_expert_loads(experts, 5, torch::tensor({true, false, true})), torch::tensor({2, 0, 0, 2, 0}, at::kLong)));
  EXPECT_TRUE(at::equal(count_expert_loads(at::empty({0, 2}, at::kLong), 3), at::zeros({3}, at::kLong)));
}

}  // namespace
}  // namespace trine
