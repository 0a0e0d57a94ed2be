#include "metrics/metrics_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/json.h"

namespace trine {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class MetricsFileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / fmt::format("trine-metrics-{}", ::getpid());
    create_folders(folder_);
    file_ = folder_ / "metrics.jsonl";
  }
  void TearDown() override { fs::remove_all(folder_); }

  // Steps first..last, a validation after each `validate`-th.
  void write_steps(int64_t resumed_step, int64_t first, int64_t last, int64_t validate = 1000) {
    MetricsFile file(file_, resumed_step);
    for (int64_t step = first; step <= last; ++step) {
      file.write(StepRecord{.step = step, .loss = 1.0 / static_cast<double>(step), .tokens = 10, .seconds = 1}, {}, step == first);
      if (step % validate == 0) file.write(ValidationRecord{.step = step, .loss = 2}, {});
    }
  }

  std::vector<int64_t> steps() {
    std::vector<int64_t> all;
    for (const auto& step : read_metrics(file_).steps) all.push_back(step.step);
    return all;
  }

  void append(std::string_view text) { FileWriter(file_, FileWriter::Mode::kAppend).write(text); }

  fs::path folder_, file_;
};

TEST_F(MetricsFileTest, EveryStepIsOneObjectWithTheDocumentedFields) {
  const Speedometer speed{.flops_per_token = 2e9, .peak_flops = 1e13};
  {
    MetricsFile file(file_, 0);
    file.write(StepRecord{.step = 7,
                          .loss = 0.1,
                          .grad_norm = 1.0 / 3,
                          .lr = 3e-4,
                          .tokens = 1000,
                          .valid_tokens = 990,
                          .seconds = 0.5,
                          .data_seconds = 0.125,
                          .memory = {.peak_bytes = 3ull << 29}},
               speed, false);
    file.write(ValidationRecord{.step = 7, .loss = 0.5, .tokens = 64, .valid_tokens = 63, .seconds = 2}, speed);
  }
  EXPECT_EQ(read_file(file_),
            "{\"kind\":\"train\",\"step\":7,\"loss\":0.1,\"grad_norm\":0.3333333333333333,\"lr\":0.0003,\"tokens\":1000,"
            "\"valid_tokens\":990,\"tps\":2000.0,\"tflops\":4.0,\"mfu\":40.0,\"memory_gib\":1.5,\"seconds\":0.5,\"data_seconds\":0.125}\n"
            "{\"kind\":\"validation\",\"step\":7,\"loss\":0.5,\"perplexity\":1.6487212707001282,\"tokens\":64,\"valid_tokens\":63,"
            "\"tps\":32.0,\"memory_gib\":0.0,\"seconds\":2.0}\n");
}

TEST_F(MetricsFileTest, LossAndNormComeBackToTheLastBit) {
  const double losses[] = {6.5400001, std::nextafter(2.43, 3), 1e-300, 4.9e-324, 12.430000000000001};
  {
    MetricsFile file(file_, 0);
    int64_t step = 0;
    for (const double loss : losses) file.write(StepRecord{.step = ++step, .loss = loss, .grad_norm = loss * 3, .lr = loss / 7}, {}, false);
  }
  const MetricsHistory history = read_metrics(file_);
  ASSERT_EQ(history.steps.size(), std::size(losses));
  for (size_t i = 0; i < std::size(losses); ++i) {
    EXPECT_EQ(history.steps[i].loss, losses[i]);
    EXPECT_EQ(history.steps[i].grad_norm, losses[i] * 3);
    EXPECT_EQ(history.steps[i].lr, losses[i] / 7);
  }
}

TEST_F(MetricsFileTest, UnknownAndNonFiniteFiguresAreNull) {
  {
    MetricsFile file(file_, 0);
    file.write(StepRecord{.step = 1, .loss = NAN, .grad_norm = INFINITY}, {}, true);
  }
  const Json object = parse_json(read_file(file_), "metrics");
  EXPECT_TRUE(object["loss"].is_null());
  EXPECT_TRUE(object["grad_norm"].is_null());
  EXPECT_TRUE(object["mfu"].is_null());
  EXPECT_TRUE(object["tflops"].is_null());
  const MetricsHistory history = read_metrics(file_);
  EXPECT_TRUE(std::isnan(history.steps[0].loss));
  EXPECT_LT(history.steps[0].mfu, 0);
  EXPECT_TRUE(history.steps[0].first_of_process);
}

TEST_F(MetricsFileTest, ResumingCutsWhatLiesPastTheResumedStepAndAppends) {
  write_steps(0, 1, 9, 3);
  write_steps(6, 7, 8, 4);
  EXPECT_THAT(steps(), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  std::vector<int64_t> validated;
  for (const auto& validation : read_metrics(file_).validations) validated.push_back(validation.step);
  EXPECT_THAT(validated, ElementsAre(3, 6, 8)) << "that of step 9 is cut, that of step 6 is kept";
}

TEST_F(MetricsFileTest, ResumingAtTheEndChangesNothingThatIsThere) {
  write_steps(0, 1, 5);
  const std::string before = read_file(file_);
  const auto written = fs::last_write_time(file_);
  MetricsFile(file_, 5);
  EXPECT_EQ(read_file(file_), before);
  EXPECT_EQ(fs::last_write_time(file_), written);
}

TEST_F(MetricsFileTest, AFreshRunBeginsTheFileAnew) {
  write_steps(0, 1, 5);
  write_steps(0, 1, 2);
  EXPECT_THAT(steps(), ElementsAre(1, 2));
}

TEST_F(MetricsFileTest, ATornEndIsCutOnResuming) {
  for (const std::string_view torn : {std::string_view("{\"kind\":\"train\",\"st"), std::string_view("{\"kind\":\"train\",\"step\":5}"),
                                      std::string_view("\0\0\0\0\0\n\0\0", 8)}) {
    write_steps(0, 1, 4);
    append(torn);
    EXPECT_THAT(steps(), ElementsAre(1, 2, 3, 4)) << "a reader leaves it out";
    write_steps(4, 5, 5);
    EXPECT_THAT(steps(), ElementsAre(1, 2, 3, 4, 5));
  }
}

TEST_F(MetricsFileTest, ADamagedLineBeforeGoodOnesIsAnErrorThatNamesIt) {
  write_steps(0, 1, 2);
  append("oops\n");
  append(R"({"kind":"train","step":3})" "\n");
  for (const int use : {0, 1}) {
    try {
      use == 0 ? (void)read_metrics(file_) : (void)MetricsFile(file_, 3);
      FAIL() << "accepted";
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr("metrics.jsonl:3"));
      EXPECT_THAT(error.what(), HasSubstr("mend the file"));
    }
  }
}

TEST_F(MetricsFileTest, ALineWithoutItsFieldsIsAnErrorForAReader) {
  append(R"({"kind":"train","step":3,"loss":1.0})" "\n");
  try {
    read_metrics(file_);
    FAIL() << "accepted";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("step 3"));
    EXPECT_THAT(error.what(), HasSubstr("tokens"));
  }
}

TEST_F(MetricsFileTest, MissingMetricsBeforeTheCheckpointAreSaid) {
  write_steps(0, 1, 3);
  testing::internal::CaptureStderr();
  MetricsFile(file_, 5);
  fs::remove(file_);
  MetricsFile(file_, 5);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("ends at step 3, before the checkpoint's step 5"));
  EXPECT_THAT(log, HasSubstr("is missing: the metrics of steps 1-5"));
}

TEST_F(MetricsFileTest, AFullDiskStopsTheRun) {
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);  // writes past the limit then fail instead of ending the process
  const rlimit small{.rlim_cur = 1000, .rlim_max = before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_THROW(write_steps(0, 1, 100), RunStopped);
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(steps().size(), 5u) << "the whole lines that fitted can be read";
}

}  // namespace
}  // namespace trine
