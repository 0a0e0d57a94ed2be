#include "optim/lr_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "optim/clipping.h"

namespace trine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<double> factors(const LrScheduleOptions& options) {
  const LrSchedule schedule(options);
  std::vector<double> all;
  for (int64_t step = 1; step <= options.num_steps; ++step) all.push_back(schedule.factor(step));
  return all;
}

auto near(const std::vector<double>& expected) { return testing::Pointwise(testing::DoubleNear(1e-12), expected); }

// Expected values from torchtitan's formulas evaluated by hand (W 2, N 10).
TEST(LrSchedule, WithoutARatioEverythingAfterTheWarmUpDecaysAndTheLastStepIsAboveZero) {
  EXPECT_THAT(factors({.lr = 1, .num_steps = 10, .warmup_steps = 2}),
              near({0.5, 1, 1, 1 - 1. / 8, 1 - 2. / 8, 1 - 3. / 8, 1 - 4. / 8, 1 - 5. / 8, 1 - 6. / 8, 1 - 7. / 8}));
}

TEST(LrSchedule, AStableStretchComesBetweenWarmUpAndDecay) {
  // D = round(10 · 0.4) = 4, S = 11 - 2 - 4 = 5: steps 3 to 7 are stable.
  EXPECT_THAT(factors({.lr = 1, .num_steps = 10, .warmup_steps = 2, .decay_ratio = 0.4}),
              near({0.5, 1, 1, 1, 1, 1, 1, 0.75, 0.5, 0.25}));
}

TEST(LrSchedule, SqrtAndCosineDecayReachTowardsTheMinimumFactor) {
  EXPECT_THAT(factors({.lr = 1, .num_steps = 4, .decay_ratio = 1, .decay = LrDecay::kSqrt, .min_lr_factor = 0.1}),
              near({1, 0.1 + 0.9 * 0.5, 0.1 + 0.9 * (1 - 0.70710678118654752), 0.1 + 0.9 * (1 - 0.86602540378443865)}));
  EXPECT_THAT(factors({.lr = 1, .num_steps = 4, .decay_ratio = 1, .decay = LrDecay::kCosine, .min_lr_factor = 0.1}),
              near({1, 0.1 + 0.9 * 0.85355339059327373, 0.1 + 0.9 * 0.5, 0.1 + 0.9 * 0.14644660940672624}));
}

TEST(LrSchedule, DecayStepsAreRoundedHalfToEvenLikePythons) {
  EXPECT_THAT(factors({.lr = 1, .num_steps = 10, .decay_ratio = 0.25}), near({1, 1, 1, 1, 1, 1, 1, 1, 1, 0.5}));  // 2.5 -> 2
  EXPECT_THAT(factors({.lr = 1, .num_steps = 10, .decay_ratio = 0.35})[7], testing::DoubleNear(0.75, 1e-12));  // 3.5 -> 4
}

TEST(LrSchedule, WithoutWarmUpAndDecayTheRateIsConstant) {
  EXPECT_THAT(factors({.lr = 1, .num_steps = 3, .decay_ratio = 0}), ElementsAre(1, 1, 1));
}

TEST(LrSchedule, RateIsFactorTimesBaseAndStaysAtTheEndBeyondTheLastStep) {
  const LrSchedule schedule({.lr = 3e-4, .num_steps = 10, .min_lr_factor = 0.1});
  EXPECT_DOUBLE_EQ(schedule.lr(1), 3e-4);
  EXPECT_DOUBLE_EQ(schedule.lr(11), 3e-5);
  EXPECT_DOUBLE_EQ(schedule.lr(1000), 3e-5);
}

TEST(LrSchedule, WarmUpLongerThanTheRunIsCutWithAWarning) {
  testing::internal::CaptureStderr();
  EXPECT_THAT(factors({.lr = 1, .num_steps = 4, .warmup_steps = 9}), near({0.25, 0.5, 0.75, 1}));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("warmup_steps 9 is more than training.steps 4"));
}

TEST(LrSchedule, DecayThatOverlapsTheWarmUpIsCutWithAWarning) {
  testing::internal::CaptureStderr();
  EXPECT_THAT(factors({.lr = 1, .num_steps = 4, .warmup_steps = 2, .decay_ratio = 1}), near({0.5, 1, 1, 0.5}));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("decay cut to 2 steps"));
}

TEST(LrSchedule, ImpossibleValuesAreRefusedByOptionName) {
  const auto message = [](const LrScheduleOptions& options) -> std::string {
    try {
      LrSchedule{options};
    } catch (const UserError& e) {
      return e.what();
    }
    return "accepted";
  };
  EXPECT_THAT(message({.lr = -1, .num_steps = 4}), HasSubstr("optimizer.lr is -1"));
  EXPECT_THAT(message({.lr = 1, .num_steps = 0}), HasSubstr("training.steps is 0"));
  EXPECT_THAT(message({.lr = 1, .num_steps = 4, .warmup_steps = -2}), HasSubstr("warmup_steps is -2"));
  EXPECT_THAT(message({.lr = 1, .num_steps = 4, .decay_ratio = 1.5}), HasSubstr("decay_ratio is 1.5"));
  EXPECT_THAT(message({.lr = 1, .num_steps = 4, .min_lr_factor = 2}), HasSubstr("min_lr_factor is 2"));
}

TEST(LrSchedule, DecayNamesAreReadAndUnknownOnesGetTheNearest) {
  EXPECT_EQ(lr_decay_from_name("cosine"), LrDecay::kCosine);
  try {
    lr_decay_from_name("cosin");
    FAIL() << "accepted";
  } catch (const UserError& e) {
    EXPECT_THAT(e.what(), HasSubstr("Did you mean \"cosine\"?"));
  }
}

// Case I5: 100 steps, warm-up 10, cosine. The case counts steps from 0; its n = 50 is our step 51.
TEST(LrSchedule, ARunThatResumesHasTheSameRateToTheLastBit) {
  const LrScheduleOptions options{.lr = 1, .num_steps = 100, .warmup_steps = 10, .decay = LrDecay::kCosine};
  EXPECT_NEAR(LrSchedule(options).factor(51), 0.586824, 1e-6);
  const std::vector<double> whole = factors(options);
  const LrSchedule resumed(options);  // made anew at step 41, with no memory of the steps before
  for (int64_t step = 41; step <= 100; ++step) EXPECT_EQ(resumed.factor(step), whole[static_cast<size_t>(step - 1)]);
}

TEST(LrSchedule, AChangedTotalChangesTheRateAndIsReportedWithOldAndNew) {
  LrScheduleOptions saved{.lr = 1, .num_steps = 100, .warmup_steps = 10, .decay = LrDecay::kCosine};
  LrScheduleOptions now = saved;
  EXPECT_TRUE(schedule_changes(saved, now).empty());
  now.num_steps = 200;
  EXPECT_NEAR(LrSchedule(now).factor(51), 0.894570, 1e-6);
  EXPECT_THAT(schedule_changes(saved, now), ElementsAre("training.steps: 100 -> 200"));
  now.decay_ratio = 0.5;
  now.decay = LrDecay::kLinear;
  EXPECT_THAT(schedule_changes(saved, now), ElementsAre("training.steps: 100 -> 200", "lr_scheduler.decay_ratio: not given -> 0.5",
                                                        "lr_scheduler.decay_type: cosine -> linear"));
}

TEST(Clipping, ScalesDownToTheMaximumNormAndNeverUp) {
  EXPECT_DOUBLE_EQ(clip_factor(4, 1), 1 / (4 + 1e-6));
  EXPECT_EQ(clip_factor(0.5, 1), 1);
  EXPECT_EQ(clip_factor(0, 1), 1);
  EXPECT_EQ(clip_factor(1e9, 0), 1) << "0 turns clipping off";
}

}  // namespace
}  // namespace trine
