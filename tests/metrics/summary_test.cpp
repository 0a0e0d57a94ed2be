#include "metrics/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<StepTiming> kSix = {
    {.step = 1, .tokens = 100, .seconds = 10, .data_seconds = 1}, {.step = 2, .tokens = 100, .seconds = 3},
    {.step = 3, .tokens = 100, .seconds = 2},                     {.step = 4, .tokens = 100, .seconds = 1, .data_seconds = 0.5},
    {.step = 5, .tokens = 50, .seconds = 1},                      {.step = 6, .tokens = 100, .seconds = 2, .data_seconds = 0.5}};

TEST(Summary, FirstWarmUpAndSustainedStepsAreApart) {
  const Summary summary = summarize(kSix, 2, 21);
  EXPECT_EQ(summary.first.count, 1);
  EXPECT_EQ(summary.first.tokens_per_second, 10);
  EXPECT_EQ(summary.warmup.first_step, 2);
  EXPECT_EQ(summary.warmup.last_step, 3);
  EXPECT_EQ(summary.warmup.mean_seconds, 2.5);
  EXPECT_EQ(summary.sustained.count, 3);
  EXPECT_EQ(summary.sustained.median_seconds, 1);
  EXPECT_DOUBLE_EQ(summary.sustained.mean_seconds, 4. / 3);
  EXPECT_EQ(summary.sustained.tokens_per_second, 62.5) << "all tokens over all time, not a mean of speeds";
  EXPECT_EQ(summary.sustained.data_share, 0.25);
  EXPECT_EQ(summary.tokens, 550);
  EXPECT_EQ(summary.step_seconds, 19);
  EXPECT_EQ(summary.other_seconds, 2);
}

TEST(Summary, TheMedianOfAnEvenCountIsTheMiddleOfTwo) { EXPECT_EQ(summarize(kSix, 1, 0).sustained.median_seconds, 1.5); }

TEST(Summary, LinesNameEveryStretchWithItsFigures) {
  const auto lines = summary_lines(summarize(kSix, 2, 21), {.flops_per_token = 1e10, .peak_flops = 1e13});
  EXPECT_THAT(lines, ElementsAre("6 steps, 550 tokens in 21.0 s: 19.0 s in steps, 2.0 s between them (validation, saving)",
                                 "  first                1  10.0 s  10 tokens/s  0.10 TFLOP/s  MFU 1.00%  waiting for data 10.0%",
                                 "  warm-up            2-3  median 2.5 s, mean 2.5 s a step  40 tokens/s  0.40 TFLOP/s  MFU 4.00%  "
                                 "waiting for data 0.0%",
                                 "  sustained          4-6  median 1.0 s, mean 1.3 s a step  63 tokens/s  0.62 TFLOP/s  MFU 6.25%  "
                                 "waiting for data 25.0%"));
}

TEST(Summary, ARunTooShortForSustainedStepsSaysSo) {
  const auto lines = summary_lines(summarize(std::span(kSix).first(2), 5, 13), {});
  EXPECT_THAT(lines.back(), HasSubstr("no steps after the first and metrics.warmup_steps"));
  EXPECT_THAT(summary_lines(summarize({}, 5, 0), {}), ElementsAre("no step was done"));
}

}  // namespace
}  // namespace trine
