#include "metrics/meter.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>

#include "base/files.h"
#include "metrics/metrics_file.h"

namespace trine {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class MeterTest : public testing::Test {
 protected:
  void SetUp() override { folder_ = fs::temp_directory_path() / fmt::format("trine-meter-{}", ::getpid()); }
  void TearDown() override { fs::remove_all(folder_); }

  MeterOptions options(int64_t num_steps, int64_t log_freq) {
    return {.run_folder = folder_, .num_steps = num_steps, .log_freq = log_freq, .status_line = false};
  }

  // Runs steps first..last of 100 tokens and 1 s, the first of the process with 5 s; returns what the log says.
  std::string run(const MeterOptions& options, int64_t first, int64_t last, const std::function<void(Meter&, int64_t)>& between = {}) {
    testing::internal::CaptureStderr();
    Meter meter(options);
    for (int64_t step = first; step <= last; ++step) {
      meter.record(StepRecord{.step = step, .loss = 2, .tokens = 100, .seconds = step == first ? 5.0 : 1.0});
      if (between) between(meter, step);
    }
    meter.finish();
    return testing::internal::GetCapturedStderr();
  }

  // The fields `name: value` of the step lines, such as their steps.
  static std::vector<std::string> fields(const std::string& log, const std::string& name) {
    std::vector<std::string> values;
    for (size_t at = 0; (at = log.find("info    step: ", at)) != std::string::npos; ++at) {
      const std::string line = log.substr(at, log.find('\n', at) - at);
      const size_t begin = line.find(name + ": ") + name.size() + 2;
      const size_t digits = line.find_first_not_of(' ', begin);
      values.push_back(line.substr(digits, line.find(' ', digits) - digits));
    }
    return values;
  }

  fs::path folder_;
};

TEST_F(MeterTest, LinesComeAtTheFirstStepEveryLogFreqAndTheLast) {
  EXPECT_THAT(fields(run(options(25, 10), 1, 25), "step"), ElementsAre("1", "10", "20", "25"));
}

TEST_F(MeterTest, EveryStepIsInTheFileWhateverLogFreqIs) {
  run(options(25, 10), 1, 25);
  EXPECT_EQ(read_metrics(folder_ / "metrics.jsonl").steps.size(), 25u);
}

TEST_F(MeterTest, ARunThatEndsEarlyShowsItsLastStepOnce) {
  EXPECT_THAT(fields(run(options(100, 10), 1, 13), "step"), ElementsAre("1", "10", "13"));
  EXPECT_THAT(fields(run(options(100, 10), 1, 20), "step"), ElementsAre("1", "10", "20"));
}

// Case J4: the first step is a window of its own, and time between steps does not count.
TEST_F(MeterTest, ThroughputLeavesOutTheFirstStepValidationAndSaving) {
  const std::string plain = run(options(20, 10), 1, 20);
  EXPECT_THAT(fields(plain, "tps"), ElementsAre("20", "100", "100"));
  const std::string with_work_between = run(options(20, 10), 1, 20, [](Meter& meter, int64_t step) {
    ::usleep(5'000);  // a save
    meter.record(ValidationRecord{.step = step, .loss = 1, .tokens = 10, .seconds = 60});
  });
  EXPECT_EQ(fields(with_work_between, "tps"), fields(plain, "tps"));
}

TEST_F(MeterTest, AResumedRunContinuesTheFileAndItsFirstStepIsMarked) {
  run(options(10, 5), 1, 8);
  MeterOptions resumed = options(10, 5);
  resumed.resumed_step = 5;
  EXPECT_THAT(fields(run(resumed, 6, 10), "step"), ElementsAre("6", "10"));
  const MetricsHistory history = read_metrics(folder_ / "metrics.jsonl");
  ASSERT_EQ(history.steps.size(), 10u);
  for (const auto& step : history.steps) EXPECT_EQ(step.first_of_process, step.step == 1 || step.step == 6) << step.step;
}

TEST_F(MeterTest, TheSummaryClosesTheRun) {
  MeterOptions with_warmup = options(20, 10);
  with_warmup.warmup_steps = 4;
  const std::string log = run(with_warmup, 1, 20);
  EXPECT_THAT(log, HasSubstr("20 steps, 2,000 tokens"));
  EXPECT_THAT(log, HasSubstr("first                1  5.0 s  20 tokens/s"));
  EXPECT_THAT(log, HasSubstr("warm-up            2-5  median 1.0 s"));
  EXPECT_THAT(log, HasSubstr("sustained         6-20  median 1.0 s, mean 1.0 s a step  100 tokens/s"));
}

TEST_F(MeterTest, ValidationHasItsLineAndItsObject) {
  const std::string log = run(options(1, 1), 1, 1, [](Meter& meter, int64_t) {
    meter.record(ValidationRecord{.step = 1, .loss = 2.5, .tokens = 10, .valid_tokens = 9, .seconds = 1});
  });
  EXPECT_THAT(log, HasSubstr("validate step:  1  loss:  2.5000  ppl: 12.18"));
  EXPECT_EQ(read_metrics(folder_ / "metrics.jsonl").validations.at(0).loss, 2.5);
}

TEST_F(MeterTest, WithoutARunFolderNothingIsWritten) {
  MeterOptions no_folder = options(2, 1);
  no_folder.run_folder.clear();
  EXPECT_THAT(fields(run(no_folder, 1, 2), "step"), ElementsAre("1", "2"));
  EXPECT_FALSE(fs::exists(folder_));
}

}  // namespace
}  // namespace trine
