#include "ops/adamw.h"

#include <cmath>
#include <cstring>
#include <string>

#include "ops/adamw_cpu.h"
#include "tests/ops/gradients.h"

namespace trine {
namespace {

const AdamWStep kSettings{.lr = 3e-3, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1};

at::Tensor gradient_of_step(int64_t step, int64_t count, at::ScalarType dtype) {
  return (random_tensor({count}, static_cast<uint64_t>(100 + step)) * 0.01).to(dtype);
}

TEST(AdamW, EqualsTorchsOverManySteps) {
  constexpr int64_t kCount = 1000;
  at::Tensor parameter = random_tensor({kCount}, 1, at::kFloat), m = at::zeros({kCount}), v = at::zeros({kCount});
  at::Tensor theirs = leaf(parameter.to(at::kDouble));
  torch::optim::AdamW optimizer({theirs}, torch::optim::AdamWOptions(kSettings.lr)
                                              .betas({kSettings.beta1, kSettings.beta2})
                                              .eps(kSettings.eps)
                                              .weight_decay(kSettings.weight_decay));
  for (int64_t step = 1; step <= 50; ++step) {
    AdamWStep settings = kSettings;
    settings.step = step;
    settings.clip_factor = step % 2 ? 1.0 : 0.25;
    const at::Tensor gradient = gradient_of_step(step, kCount, at::kFloat);
    adamw_(parameter, gradient, m, v, settings);
    theirs.mutable_grad() = gradient.to(at::kDouble) * settings.clip_factor;
    optimizer.step();
    ASSERT_LT((parameter - theirs).abs().max().item<double>(), 4e-6) << "fp32 rounds the parameter once a step; step " << step;
  }
}

// One update in float64, from and to the given dtypes.
void plain_adamw(at::Tensor& parameter, const at::Tensor& gradient, at::Tensor& m, at::Tensor& v, const AdamWStep& s) {
  const at::Tensor g = gradient.to(at::kDouble) * s.clip_factor;
  const at::Tensor new_m = m.to(at::kDouble) * s.beta1 + g * (1 - s.beta1), new_v = v.to(at::kDouble) * s.beta2 + g * g * (1 - s.beta2);
  const double bias1 = 1 - std::pow(s.beta1, s.step), bias2 = 1 - std::pow(s.beta2, s.step);
  parameter.copy_(parameter.to(at::kDouble) * (1 - s.lr * s.weight_decay) - s.lr * (new_m / bias1) / ((new_v / bias2).sqrt() + s.eps));
  m.copy_(new_m);
  v.copy_(new_v);
}

TEST(AdamW, EveryCombinationOfDtypesRoundsTheFp32ResultOnce) {
  constexpr int64_t kCount = 333;
  for (at::ScalarType p_type : {at::kFloat, at::kBFloat16}) {
    for (at::ScalarType g_type : {at::kFloat, at::kBFloat16}) {
      for (at::ScalarType m_type : {at::kFloat, at::kBFloat16}) {
        SCOPED_TRACE(std::string(c10::toString(p_type)) + ", " + c10::toString(g_type) + ", " + c10::toString(m_type));
        at::Tensor p = random_tensor({kCount}, 1, p_type), m = random_tensor({kCount}, 2, m_type) * 0.01;
        at::Tensor v = random_tensor({kCount}, 3, m_type).square() * 1e-4;
        at::Tensor expected_p = p.clone(), expected_m = m.clone(), expected_v = v.clone();
        AdamWStep settings = kSettings;
        settings.step = 7;
        const at::Tensor g = gradient_of_step(7, kCount, g_type);
        adamw_(p, g, m, v, settings);
        plain_adamw(expected_p, g, expected_m, expected_v, settings);
        const auto unit = [](at::ScalarType type) { return type == at::kFloat ? 1e-6 : 1.0 / 256; };
        EXPECT_TRUE(at::allclose(p, expected_p, unit(p_type), 1e-7));
        EXPECT_TRUE(at::allclose(m, expected_m, unit(m_type), 1e-9));
        EXPECT_TRUE(at::allclose(v, expected_v, unit(m_type), 1e-12));
      }
    }
  }
}

TEST(AdamW, BothImplementationsGiveTheSameMomentsAndNeighbouringParameters) {
  constexpr int64_t kCount = (int64_t{1} << 16) + 77;  // several threads' worth
  for (at::ScalarType p_type : {at::kFloat, at::kBFloat16}) {
    for (at::ScalarType g_type : {at::kFloat, at::kBFloat16}) {
      for (at::ScalarType m_type : {at::kFloat, at::kBFloat16}) {
        SCOPED_TRACE(std::string(c10::toString(p_type)) + ", " + c10::toString(g_type) + ", " + c10::toString(m_type));
        at::Tensor p = random_tensor({kCount}, 1, p_type), m = random_tensor({kCount}, 2, m_type) * 0.01;
        at::Tensor v = random_tensor({kCount}, 3, m_type).square() * 1e-4 + 1e-6;
        at::Tensor their_p = p.clone(), their_m = m.clone(), their_v = v.clone();
        AdamWStep settings = kSettings;
        settings.clip_factor = 0.3;
        for (settings.step = 1; settings.step <= 3; ++settings.step) {
          const at::Tensor g = gradient_of_step(settings.step, kCount, g_type);
          adamw_(p, g, m, v, settings, Implementation::kFused);
          adamw_(their_p, g, their_m, their_v, settings, Implementation::kReference);
        }
        // torch's root of fp32 values is not always the nearest one.
        EXPECT_TRUE(at::allclose(p, their_p, p_type == at::kFloat ? 3e-7 : 1.0 / 128, 3e-8));
        EXPECT_LT(p.ne(their_p).to(at::kDouble).mean().item<double>(), 1e-3);
        EXPECT_TRUE(at::equal(m, their_m));
        EXPECT_TRUE(at::equal(v, their_v));
      }
    }
  }
}

TEST(AdamW, Float64IsComputedInFloat64) {
  constexpr int64_t kCount = 1000;
  at::Tensor p = random_tensor({kCount}, 1), m = random_tensor({kCount}, 2) * 0.01, v = random_tensor({kCount}, 3).square() * 1e-4;
  at::Tensor expected_p = p.clone(), expected_m = m.clone(), expected_v = v.clone();
  AdamWStep settings = kSettings;
  settings.step = 7;
  const at::Tensor g = gradient_of_step(7, kCount, at::kDouble);
  adamw_(p, g, m, v, settings);
  plain_adamw(expected_p, g, expected_m, expected_v, settings);
  EXPECT_TRUE(at::allclose(p, expected_p, 1e-14, 1e-15));
  EXPECT_TRUE(at::allclose(m, expected_m, 1e-14, 1e-15));
  EXPECT_TRUE(at::allclose(v, expected_v, 1e-14, 1e-15));
}

// A step that is exactly −lr: a gradient whose second moment has reached its square, without decay.
double after_100_updates(at::ScalarType dtype) {
  at::Tensor parameter = at::ones({1}, dtype), m = at::ones({1}), v = at::ones({1});
  const AdamWStep settings{.lr = 6e-4, .beta1 = 0, .beta2 = 0, .eps = 0, .weight_decay = 0, .clip_factor = 1, .step = 1};
  for (int i = 0; i < 100; ++i) adamw_(parameter, at::ones({1}), m, v, settings);
  return parameter.item<double>();
}

TEST(AdamW, SmallUpdatesReachAnFp32MasterAndRoundAwayInBf16) {  // case E8
  EXPECT_NEAR(after_100_updates(at::kFloat), 0.94, 1e-5);
  EXPECT_EQ(after_100_updates(at::kBFloat16), 1.0);
}

TEST(AdamW, RefusesTensorsThatDoNotBelongTogether) {
  at::Tensor p = at::zeros({4}), m = at::zeros({4}), v = at::zeros({4}), short_v = at::zeros({3});
  at::Tensor strided = at::zeros({8}).slice(0, 0, 8, 2), half_v = at::zeros({4}, at::kBFloat16);
  EXPECT_THROW(adamw_(p, at::zeros({3}), m, v, kSettings), c10::Error);
  EXPECT_THROW(adamw_(p, at::zeros({4}), m, short_v, kSettings), c10::Error);
  EXPECT_THROW(adamw_(p, at::zeros({4}), m, half_v, kSettings), c10::Error);
  EXPECT_THROW(adamw_(p, strided, m, v, kSettings), c10::Error);
  EXPECT_THROW(adamw_(p, at::zeros({4}, at::kLong), m, v, kSettings), c10::Error);
  AdamWStep step_0 = kSettings, rounded = kSettings;
  step_0.step = 0;
  EXPECT_THROW(adamw_(p, at::zeros({4}), m, v, step_0), c10::Error);
  rounded.rounding_seed = 1;
  EXPECT_THROW(adamw_(p, at::zeros({4}), m, v, rounded), c10::Error) << "an fp32 parameter loses nothing that rounding could keep";
}

template <class P, class G, class M>
void check_instruction_sets() {
  constexpr int64_t kCount = 1003;  // not a multiple of any register
  const auto fill = [](auto& values, uint64_t seed, double factor) {
    const at::Tensor drawn = random_tensor({kCount}, seed, at::kFloat).abs_().mul_(factor);
    for (int64_t i = 0; i < kCount; ++i) store(values[static_cast<size_t>(i)], drawn.data_ptr<float>()[i]);
  };
  const AdamWFactors<float> factors{.clip = 0.7f, .decay = 0.999f, .one_minus_beta1 = 0.1f, .beta2 = 0.95f, .one_minus_beta2 = 0.05f,
                             .step_size = 0.01f, .inverse_sqrt_bias2 = 1.5f, .eps = 1e-8f};
  std::vector<G> g(kCount);
  fill(g, 1, 0.1);
  const auto run = [&](InstructionSet set) {
    std::vector<P> p(kCount);
    std::vector<M> m(kCount), v(kCount);
    fill(p, 2, 1);
    fill(m, 3, 0.1);
    fill(v, 4, 0.01);
    adamw_cpu(p.data(), g.data(), m.data(), v.data(), kCount, factors, set);
    std::string bytes(reinterpret_cast<const char*>(p.data()), sizeof(P) * kCount);
    bytes.append(reinterpret_cast<const char*>(m.data()), sizeof(M) * kCount);
    return bytes.append(reinterpret_cast<const char*>(v.data()), sizeof(M) * kCount);
  };
  const std::string expected = run(InstructionSet::kPortable);
  for (InstructionSet set : {InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    if (set <= instruction_set()) EXPECT_TRUE(run(set) == expected) << static_cast<int>(set);
  }
}

TEST(AdamWKernel, EveryInstructionSetGivesTheSameBits) {
  using B = BFloat16Bits;
  check_instruction_sets<float, float, float>();
  check_instruction_sets<float, float, B>();
  check_instruction_sets<float, B, float>();
  check_instruction_sets<float, B, B>();
  check_instruction_sets<B, float, float>();
  check_instruction_sets<B, float, B>();
  check_instruction_sets<B, B, float>();
  check_instruction_sets<B, B, B>();
}

}  // namespace
}  // namespace trine
