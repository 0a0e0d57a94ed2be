// Stochastic rounding of bfloat16 parameters: where its noise comes from, that it depends on nothing else, and what it is for.
#include <bit>
#include <cmath>
#include <limits>

#include "base/random.h"
#include "ops/adamw.h"
#include "ops/adamw_cpu.h"
#include "tests/ops/gradients.h"

namespace trine {
namespace {

constexpr int64_t kSeed = 0x123456789ABCDEF;

// An update by exactly -lr wherever the gradient is 1.
AdamWStep plain_step(double lr, int64_t step, std::optional<int64_t> seed) {
  return {.lr = lr, .beta1 = 0, .beta2 = 0, .eps = 0, .weight_decay = 0, .clip_factor = 1, .step = step, .rounding_seed = seed};
}

at::Tensor updated(const at::Tensor& parameter, const AdamWStep& step, Implementation implementation = Implementation::kFused) {
  at::Tensor p = parameter.clone(), m = at::zeros({p.numel()}), v = at::zeros({p.numel()});
  adamw_(p, at::ones({p.numel()}), m, v, step, implementation);
  return p;
}

// What RoundingNoise says, from the generator that base/random.h documents.
uint32_t noise_of(uint64_t seed, uint64_t step, uint64_t index) {
  const uint64_t block = index / 512 * 64 + index % 64, half = index % 512 / 64;
  const Philox4 words = philox4x32({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), static_cast<uint32_t>(step),
                                    static_cast<uint32_t>(step >> 32)},
                                   {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return words[half / 2] >> (half % 2 * 16) & 0xFFFF;
}

TEST(StochasticRounding, TakesItsNoiseFromSeedStepAndIndex) {
  constexpr int64_t kCount = 1500;
  constexpr double kLr = 0.37 / 256;
  const at::Tensor before = random_tensor({kCount}, 1, at::kBFloat16);
  for (Implementation implementation : kBothImplementations) {
    for (const int64_t first : {int64_t{0}, int64_t{300}, (int64_t{1} << 37) - 700}) {
      AdamWStep step = plain_step(kLr, (int64_t{3} << 32) + 5, kSeed);
      step.first_index = first;
      const at::Tensor after = updated(before, step, implementation);
      for (int64_t i = 0; i < kCount; ++i) {
        const float exact = before[i].item<float>() - static_cast<float>(kLr);
        const uint32_t noise = noise_of(kSeed, static_cast<uint64_t>(step.step), static_cast<uint64_t>(first + i));
        const uint32_t bits = std::bit_cast<uint32_t>(exact) + noise;
        ASSERT_EQ(after[i].item<float>(), std::bit_cast<float>(bits & 0xFFFF0000u)) << i;
      }
    }
  }
}

// The share of the values just above a target is what makes their mean the target, within five standard deviations.
void expect_unbiased(const at::Tensor& values, double target, double gap) {
  const at::Tensor wide = values.to(at::kDouble);
  const double below = std::floor(target / gap) * gap;
  EXPECT_TRUE(at::logical_or(wide == below, wide == below + gap).all().item<bool>()) << "one of the two neighbours of " << target;
  const double share = (target - below) / gap;
  EXPECT_NEAR(wide.mean().item<double>(), target, 5 * gap * std::sqrt(share * (1 - share) / static_cast<double>(values.numel())));
}

TEST(StochasticRounding, HasTheMeanOfFloat64OverElementsAndOverSteps) {
  constexpr int64_t kCount = 1 << 18, kSteps = 4000;
  for (const double share : {0.004, 0.25, 0.5, 0.93}) {
    for (const double sign : {1.0, -1.0}) {
      const double lr = share / 128, target = sign * 1.25 - lr;  // neighbours of bf16 are 1/128 apart between 1 and 2
      expect_unbiased(updated(at::full({kCount}, sign * 1.25, at::kBFloat16), plain_step(lr, 1, kSeed)), target, 1.0 / 128);
      std::vector<at::Tensor> one_element;
      for (int64_t step = 1; step <= kSteps; ++step) {
        one_element.push_back(updated(at::full({1}, sign * 1.25, at::kBFloat16), plain_step(lr, step, kSeed)));
      }
      expect_unbiased(at::cat(one_element), target, 1.0 / 128);
    }
  }
}

TEST(StochasticRounding, NeighboursAndSeedsAreIndependent) {
  constexpr int64_t kCount = 1 << 18;
  const auto up = [](int64_t seed, int64_t step) {  // 1 or -1: which way each of kCount halves was rounded
    const at::Tensor p = updated(at::full({kCount}, 1.25, at::kBFloat16), plain_step(0.5 / 128, step, seed)).to(at::kDouble);
    return (p - (1.25 - 0.5 / 128)).sign();
  };
  const at::Tensor one = up(1, 1);
  const auto correlation = [](const at::Tensor& a, const at::Tensor& b) { return (a * b).mean().item<double>(); };
  const double tolerance = 5 / std::sqrt(static_cast<double>(kCount));
  EXPECT_NEAR(correlation(one, up(2, 1)), 0, tolerance);
  EXPECT_NEAR(correlation(one, up(1, 2)), 0, tolerance);
  for (const int64_t distance : {1, 63, 64, 65, 128, 512}) EXPECT_NEAR(correlation(one, one.roll(distance)), 0, tolerance) << distance;
}

TEST(StochasticRounding, DoesNotDependOnCutsThreadsOrImplementation) {
  constexpr int64_t kCount = (1 << 17) + 333;
  const at::Tensor before = random_tensor({kCount}, 1, at::kBFloat16);
  AdamWStep step = plain_step(1e-3, 9, kSeed);
  const at::Tensor whole = updated(before, step);
  EXPECT_TRUE(at::equal(updated(before, step, Implementation::kReference), whole));

  const int threads = at::get_num_threads();
  for (const int count : {1, 2, 3}) {
    at::set_num_threads(count);
    EXPECT_TRUE(at::equal(updated(before, step), whole)) << count << " threads";
  }
  at::set_num_threads(threads);

  std::vector<at::Tensor> parts;
  const std::vector<int64_t> cuts = {0, 1, 511, 513, 70000, 70064, kCount};
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    step.first_index = cuts[i];
    parts.push_back(updated(before.slice(0, cuts[i], cuts[i + 1]), step));
  }
  EXPECT_TRUE(at::equal(at::cat(parts), whole));
}

template <class Gradient, class Moment>
void check_instruction_sets() {
  constexpr int64_t kCount = 2003;
  const auto fill = [](auto& values, uint64_t seed, double factor) {
    const at::Tensor drawn = random_tensor({kCount}, seed, at::kFloat).abs_().mul_(factor);
    for (int64_t i = 0; i < kCount; ++i) store(values[static_cast<size_t>(i)], drawn.data_ptr<float>()[i]);
  };
  const AdamWFactors<float> factors{.clip = 0.7f, .decay = 0.999f, .one_minus_beta1 = 0.1f, .beta2 = 0.95f, .one_minus_beta2 = 0.05f,
                                    .step_size = 0.01f, .inverse_sqrt_bias2 = 1.5f, .eps = 1e-8f};
  std::vector<Gradient> g(kCount);
  fill(g, 1, 0.1);
  const auto run = [&](InstructionSet set) {
    std::vector<BFloat16Bits> p(kCount);
    std::vector<Moment> m(kCount), v(kCount);
    fill(p, 2, 1);
    fill(m, 3, 0.1);
    fill(v, 4, 0.01);
    adamw_stochastic_cpu(p.data(), g.data(), m.data(), v.data(), kCount, factors, {.key = {3, 4}, .step = 5, .first_index = 77}, set);
    std::string bytes(reinterpret_cast<const char*>(p.data()), sizeof(BFloat16Bits) * kCount);
    bytes.append(reinterpret_cast<const char*>(m.data()), sizeof(Moment) * kCount);
    return bytes.append(reinterpret_cast<const char*>(v.data()), sizeof(Moment) * kCount);
  };
  const std::string expected = run(InstructionSet::kPortable);
  for (InstructionSet set : {InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    if (set <= instruction_set()) EXPECT_TRUE(run(set) == expected) << static_cast<int>(set);
  }
}

TEST(StochasticRoundingKernel, EveryInstructionSetGivesTheSameBits) {
  check_instruction_sets<float, float>();
  check_instruction_sets<float, BFloat16Bits>();
  check_instruction_sets<BFloat16Bits, float>();
  check_instruction_sets<BFloat16Bits, BFloat16Bits>();
}

TEST(StochasticRounding, UpdatesThatRoundingToNearestLosesAddUpInTheMean) {  // case E8
  constexpr int64_t kCount = 1 << 14, kSteps = 100;
  constexpr double kLr = 6e-4;  // 0.15 of the distance between neighbours below 1
  at::Tensor to_nearest = at::ones({kCount}, at::kBFloat16), at_random = at::ones({kCount}, at::kBFloat16);
  for (int64_t step = 1; step <= kSteps; ++step) {
    to_nearest = updated(to_nearest, plain_step(kLr, step, std::nullopt));
    at_random = updated(at_random, plain_step(kLr, step, kSeed));
  }
  EXPECT_TRUE(to_nearest.eq(1).all().item<bool>());
  // A step moves by 0 or 1/256, with a variance of share · (1 - share) / 256².
  const double share = kLr * 256, deviation = std::sqrt(share * (1 - share) * kSteps / static_cast<double>(kCount)) / 256;
  EXPECT_NEAR(at_random.to(at::kDouble).mean().item<double>(), 1 - kLr * kSteps, 5 * deviation);
}

TEST(StochasticRounding, KeepsWhatBf16HoldsExactlyAndWhatIsNotFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  const at::Tensor before = torch::tensor({0.0f, -0.0f, 1.0f, -3.140625f, 1e-40f, infinity, -infinity}).to(at::kBFloat16);
  for (Implementation implementation : kBothImplementations) {
    for (int64_t step = 1; step <= 20; ++step) {
      EXPECT_TRUE(at::equal(updated(before, plain_step(0, step, kSeed), implementation), before));
    }
    const at::Tensor nan = at::full({600}, std::numeric_limits<float>::quiet_NaN(), at::kBFloat16);
    EXPECT_TRUE(updated(nan, plain_step(1, 1, kSeed), implementation).isnan().all().item<bool>());
  }
}

}  // namespace
}  // namespace trine
