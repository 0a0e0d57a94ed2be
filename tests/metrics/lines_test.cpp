#include "metrics/lines.h"

#include <gtest/gtest.h>

#include <limits>

namespace trine {
namespace {

// The form that users' scripts match, field by field.
TEST(StepLine, HasTheDocumentedForm) {
  const StepRecord step{.step = 1,
                        .loss = 6.54,
                        .grad_norm = 1.2345,
                        .tokens = 2468,
                        .seconds = 2,
                        .memory = {.peak_bytes = uint64_t(3.21 * (1 << 30)), .capacity_bytes = 24ull << 30}};
  Window window;
  window.add(step);
  const Speedometer speed{.flops_per_token = 1e10, .peak_flops = 1.0032520325203e15};
  EXPECT_EQ(step_line(step, window, speed),
            "step:  1  loss:  6.54000  grad_norm:  1.2345  memory:  3.21GiB(13.37%)  tps: 1,234  tflops: 12.34  mfu: 1.23%");
}

TEST(StepLine, LargeFiguresGetThousandsSeparatorsAndRanksTheirShare) {
  const StepRecord step{.step = 12345, .loss = 12.43, .grad_norm = 123.5, .tokens = 1'000'000, .seconds = 0.5};
  Window window;
  window.add(step);
  const Speedometer speed{.num_ranks = 64, .flops_per_token = 4e9};
  EXPECT_EQ(step_line(step, window, speed),
            "step: 12345  loss: 12.43000  grad_norm: 123.5000  memory:  0.00GiB(0.00%)  tps: 2,000,000 (31,250/rank)  tflops: 8,000.00  "
            "mfu: n/a")
      << "an unknown device has no MFU";
}

TEST(StepLine, SpeedAndMemoryAreThoseOfTheWindowLossAndNormOfTheStep) {
  Window window;
  window.add({.step = 11, .loss = 9, .tokens = 100, .seconds = 1, .memory = {.peak_bytes = 2ull << 30, .capacity_bytes = 8ull << 30}});
  const StepRecord last{
      .step = 12, .loss = 1, .tokens = 300, .seconds = 3, .memory = {.peak_bytes = 1ull << 30, .capacity_bytes = 8ull << 30}};
  window.add(last);
  EXPECT_EQ(step_line(last, window, {}),
            "step: 12  loss:  1.00000  grad_norm:  0.0000  memory:  2.00GiB(25.00%)  tps: 100  tflops: 0.00  mfu: n/a");
}

// Case J3: the same tokens in the same time are the same speed, however they were split into micro-batches and ranks, and padding
// is not among them: a record carries the non-padding tokens of the whole step.
TEST(StepLine, ThroughputDoesNotDependOnTheNumberOfRanks) {
  const StepRecord step{.step = 1, .tokens = 4096, .seconds = 2};
  Window window;
  window.add(step);
  const Speedometer one{.num_ranks = 1, .flops_per_token = 1e9, .peak_flops = 1e13};
  const Speedometer four{.num_ranks = 4, .flops_per_token = 1e9, .peak_flops = 1e13};
  EXPECT_NE(step_line(step, window, one).find("tps: 2,048  tflops: 2.05  mfu: 20.48%"), std::string::npos);
  EXPECT_NE(step_line(step, window, four).find("tps: 2,048 (512/rank)  tflops: 2.05  mfu: 20.48%"), std::string::npos);
}

// Case J1: FLOPs per token of Qwen3-0.6B at 4096 tokens are 3,575,906,304 + 2,818,572,288, so 1000 tokens/s are 6.39 TFLOP/s.
TEST(StepLine, TflopsAreTokensTimesFlopsPerToken) {
  const Speedometer speed{.flops_per_token = 3'575'906'304.0 + 2'818'572'288.0, .peak_flops = 989e12};
  EXPECT_NEAR(speed.tflops(1000), 6.394478592, 1e-9);
  EXPECT_NEAR(speed.mfu(1000), 0.64655997, 1e-7);
}

TEST(StepLine, NonFiniteValuesAreShownAsSuch) {
  const StepRecord step{.step = 3, .loss = std::numeric_limits<double>::quiet_NaN(), .grad_norm = std::numeric_limits<double>::infinity()};
  EXPECT_NE(step_line(step, {}, {}).find("loss:      nan  grad_norm:     inf"), std::string::npos) << step_line(step, {}, {});
}

TEST(ValidationLine, ShowsLossPerplexityTokensAndSpeed) {
  EXPECT_EQ(validation_line({.step = 20, .loss = 2.5, .tokens = 8192, .valid_tokens = 8000, .seconds = 4}, {}),
            "validate step: 20  loss:  2.5000  ppl: 12.18  tokens: 8,192  tps: 2,048");
}

}  // namespace
}  // namespace trine
