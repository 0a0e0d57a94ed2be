#include "ops/balance_gradient.h"

#include "ops/router.h"
#include "tests/ops/gradients.h"

namespace trine {
namespace {

struct Setting {
  const char* name;
  double z_scale;
  std::optional<at::Tensor> mask;
};
const Setting kSettings[] = {
    {"both, every token", 0.3, std::nullopt},
    {"both, some tokens", 0.3, torch::tensor({true, false, true, true, false, true})},
    {"no z-loss", 0.0, torch::tensor({true, true, true, true, true, false})},
};

TEST(BalanceGradient, IsThatOfTheLossesWrittenOut) {
  for (const Setting& setting : kSettings) {
    SCOPED_TRACE(setting.name);
    const at::Tensor dweights = random_tensor({6, 2}, 2), fractions = random_tensor({5}, 3).abs();
    const RouterOptions options{.top_k = 2, .norm_topk_prob = true};

    const at::Tensor logits = leaf(random_tensor({6, 5}, 1));
    const Routing routing = router(logits, options);
    const at::Tensor counts = setting.mask ? setting.mask->to(at::kDouble) : at::ones({6}, at::kDouble);
    const at::Tensor auxiliary = (routing.probs_te * counts.unsqueeze(1) * fractions).sum();
    const at::Tensor z_loss = setting.z_scale * (logits.logsumexp(-1).square() * counts).sum();
    ((routing.weights_tk * dweights).sum() + auxiliary + z_loss).backward();

    for (Implementation implementation : {Implementation::kReference, Implementation::kFused}) {
      const at::Tensor attached = leaf(logits);
      const Routing r = router(attached, options, implementation);
      at::Tensor coefficients = at::full({5}, std::numeric_limits<double>::quiet_NaN(), at::kDouble);
      const at::Tensor weights = attach_balance_gradient(r.weights_tk, r.probs_te, attached, {coefficients, setting.z_scale, setting.mask});
      EXPECT_TRUE(at::equal(weights, r.weights_tk));
      const at::Tensor loss = (weights * dweights).sum();
      coefficients.copy_(fractions);  // known only now, after the forward pass
      loss.backward();
      EXPECT_LT(difference(attached.grad(), logits.grad()), 1e-12);
    }
  }
}

TEST(BalanceGradient, WorksOnTheFp32RoutingOfBf16Logits) {
  const at::Tensor logits = leaf(random_tensor({64, 16}, 1, at::kBFloat16)), wide = leaf(logits.to(at::kDouble));
  const at::Tensor fractions = random_tensor({16}, 3, at::kFloat).abs();
  const Routing expected = router(wide, {.top_k = 4});
  ((expected.probs_te * fractions).sum() + 0.01 * wide.logsumexp(-1).square().sum()).backward();
  const Routing routing = router(logits, {.top_k = 4}, Implementation::kFused);
  (attach_balance_gradient(routing.weights_tk, routing.probs_te, logits, {fractions, 0.01}) * 0).sum().backward();
  EXPECT_LT(difference(logits.grad(), wide.grad()), 1e-2);
}

TEST(BalanceGradient, RefusesSizesThatDoNotFit) {
  const at::Tensor weights = at::zeros({3, 2}), probs = at::zeros({3, 4});
  EXPECT_THROW(attach_balance_gradient(weights, probs, at::zeros({3, 5}), {at::zeros({4})}), c10::Error);
  EXPECT_THROW(attach_balance_gradient(weights, probs, probs, {at::zeros({3})}), c10::Error);
  EXPECT_THROW(attach_balance_gradient(weights, probs, probs, {at::zeros({4}), 0, at::ones({4}, at::kBool)}), c10::Error);
}

}  // namespace
}  // namespace trine
