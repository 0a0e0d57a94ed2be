#include "verify/losses.h"

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>

#include "base/errors.h"
#include "metrics/metrics_file.h"

namespace trine {
namespace {

using testing::HasSubstr;

class CompareLosses : public testing::Test {
 protected:
  ~CompareLosses() override { std::filesystem::remove_all(root_); }

  // A run of `steps` steps with a validation after step 2; `change` alters a record before it is written.
  std::filesystem::path run(const std::string& name, int64_t steps, const std::function<void(StepRecord&)>& change = [](StepRecord&) {}) {
    std::filesystem::create_directories(root_ / name);
    MetricsFile file(root_ / name / "metrics.jsonl", 0);
    for (int64_t i = 1; i <= steps; ++i) {
      StepRecord step;
      step.step = i;
      step.loss = 10.0 / static_cast<double>(i) + 1e-13;
      step.grad_norm = 1.0 / 3;
      step.lr = 1e-3;
      step.tokens = 128;
      step.valid_tokens = 120;
      step.seconds = static_cast<double>(name.size());  // machine figures differ between runs
      change(step);
      file.write(step, {}, i == 1);
      ValidationRecord validation;
      validation.step = i;
      validation.loss = 3.25;
      validation.tokens = validation.valid_tokens = 64;
      if (i == 2) file.write(validation, {});
    }
    return root_ / name;
  }

  const std::filesystem::path root_ = std::filesystem::temp_directory_path() / ("trine_losses_" + std::to_string(::getpid()));
};

TEST_F(CompareLosses, IgnoresWhatDependsOnTheMachine) {
  const LossComparison result = compare_losses(run("a", 4), run("another", 4), false);
  EXPECT_TRUE(result.equal());
  EXPECT_EQ(result.num_steps, 4);
  EXPECT_EQ(result.num_validations, 1);
}

TEST_F(CompareLosses, NamesTheFirstDifferenceToTheLastBit) {
  const auto nudge = [](StepRecord& step) {
    if (step.step >= 3) step.loss = std::nextafter(step.loss, 100);
    if (step.step == 4) step.grad_norm = 7;
  };
  const LossComparison result = compare_losses(run("a", 4), run("b", 4, nudge), false);
  EXPECT_EQ(result.num_different, 2);
  ASSERT_TRUE(result.first);
  EXPECT_EQ(result.first->step, 3);
  EXPECT_EQ(result.first->field, "loss");
  EXPECT_NE(result.first->a, result.first->b);
  EXPECT_GT(result.largest_relative_loss_difference, 0);
  EXPECT_LT(result.largest_relative_loss_difference, 1e-15);
}

TEST_F(CompareLosses, ComparesNormAndCountsToo) {
  const auto other_norm = [](StepRecord& step) { step.grad_norm += step.step == 2 ? 1e-16 * 3 : 0; };
  EXPECT_EQ(compare_losses(run("a", 4), run("b", 4, other_norm), false).first->field, "grad_norm");
  const auto other_count = [](StepRecord& step) { step.valid_tokens -= step.step == 4; };
  EXPECT_EQ(in_words(*compare_losses(root_ / "a", run("c", 4, other_count), false).first), "step 4: valid_tokens 120 and 119");
}

TEST_F(CompareLosses, CountsMissingStepsUnlessOnlyCommonOnesAreAskedFor) {
  const LossComparison result = compare_losses(run("a", 4), run("b", 3), false);
  EXPECT_EQ(result.num_different, 1);
  EXPECT_EQ(in_words(*result.first), "step 4: record present and none");
  EXPECT_TRUE(compare_losses(root_ / "a", root_ / "b", true).equal());
}

TEST_F(CompareLosses, TakesNaNForEqualToNaN) {
  const auto not_a_number = [](StepRecord& step) { step.loss = NAN; };
  EXPECT_TRUE(compare_losses(run("a", 2, not_a_number), run("b", 2, not_a_number), false).equal());
  EXPECT_FALSE(compare_losses(root_ / "a", run("c", 2), false).equal());
}

TEST_F(CompareLosses, RefusesWhatHoldsNoRun) {
  const auto error_of = [&](const std::filesystem::path& other) -> std::string {
    try {
      compare_losses(run("a", 2), other, false);
    } catch (const UserError& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_THAT(error_of(root_ / "absent"), HasSubstr("absent"));
  std::filesystem::create_directories(root_ / "empty");
  std::ofstream(root_ / "empty" / "metrics.jsonl");
  EXPECT_THAT(error_of(root_ / "empty"), HasSubstr("no training step"));
}

}  // namespace
}  // namespace trine
