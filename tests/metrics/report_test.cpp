#include "metrics/report.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/errors.h"

namespace trine {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class Report : public testing::Test {
 protected:
  void SetUp() override { folder_ = fs::temp_directory_path() / fmt::format("trine-report-{}", ::getpid()); }
  void TearDown() override { fs::remove_all(folder_); }

  // A run of steps that take 1 s, but the first of each process 10 s; loss 100 / step.
  fs::path make_run(const std::string& name, const std::vector<int64_t>& last_steps, const Speedometer& speed = {}) {
    create_folders(folder_ / name);
    int64_t step = 0;
    for (const int64_t last : last_steps) {
      MetricsFile file(folder_ / name / "metrics.jsonl", step);
      for (bool first = true; step < last; first = false) {
        ++step;
        file.write(StepRecord{.step = step,
                              .loss = 100 / static_cast<double>(step),
                              .tokens = 50,
                              .seconds = first ? 10.0 : 1.0,
                              .memory = {.peak_bytes = static_cast<uint64_t>(step) << 20}},
                   speed, first);
      }
      file.write(ValidationRecord{.step = step, .loss = 3.0 + static_cast<double>(step) / 100, .tokens = 5, .seconds = 1}, speed);
    }
    return folder_ / name;
  }

  static std::string cell(const std::vector<std::vector<std::string>>& cells, const std::string& heading, size_t run = 0) {
    for (const auto& row : cells) {
      if (row[0] == heading) return row.at(run + 1);
    }
    return "no such row";
  }

  fs::path folder_;
};

TEST_F(Report, SpeedLeavesOutTheFirstStepOfEachProcess) {
  const RunReport run = read_run(make_run("a", {4, 9}, {.flops_per_token = 1e10, .peak_flops = 1e12}));
  EXPECT_EQ(run.num_processes, 2);
  EXPECT_EQ(run.speed.count, 7);
  EXPECT_EQ(run.speed.tokens_per_second, 50);
  EXPECT_DOUBLE_EQ(run.tflops, 0.5);
  EXPECT_DOUBLE_EQ(run.mfu, 50);
  EXPECT_EQ(run.tokens, 450);
  EXPECT_EQ(run.peak_bytes, 9u << 20);
}

TEST_F(Report, ARunOfOneStepHasTheSpeedOfThatStep) {
  const RunReport run = read_run(make_run("a", {1}));
  EXPECT_EQ(run.speed.tokens_per_second, 5);
  EXPECT_LT(run.mfu, 0);
}

TEST_F(Report, CellsHaveAColumnForEachRun) {
  const std::vector<RunReport> runs = {read_run(make_run("a", {4, 8})), read_run(make_run("b", {2}))};
  const auto cells = report_cells(runs);
  EXPECT_EQ(cell(cells, "steps", 0), "1-8, resumed 1x");
  EXPECT_EQ(cell(cells, "steps", 1), "1-2");
  EXPECT_EQ(cell(cells, "first loss", 0), "100.0000 (step 1)");
  EXPECT_EQ(cell(cells, "last loss", 0), "12.5000 (step 8)");
  EXPECT_EQ(cell(cells, "lowest validation", 0), "3.0400 (step 4)");
  EXPECT_EQ(cell(cells, "last validation", 0), "3.0800 (step 8)");
  EXPECT_EQ(cell(cells, "MFU", 0), "n/a");
  EXPECT_EQ(cell(cells, "peak memory", 1), "2.0 MiB");
}

TEST_F(Report, TextAlignsTheColumns) {
  const std::vector<RunReport> runs = {read_run(make_run("a", {4})), read_run(make_run("longer_name", {2}))};
  std::vector<size_t> columns;
  const std::string text = report_text(runs);
  for (const char* mark : {"1-4 ", "1-2\n"}) {
    const size_t at = text.find(mark);
    columns.push_back(at - text.rfind('\n', at));
  }
  EXPECT_EQ(columns[1] - columns[0], (folder_ / "a").string().size() + 2);
}

TEST_F(Report, NaNIsNeverTheLowestLoss) {
  create_folders(folder_);
  {
    MetricsFile file(folder_ / "metrics.jsonl", 0);
    int64_t step = 0;
    for (const double loss : {double{NAN}, 3.0, 2.0, double{NAN}}) {
      file.write(StepRecord{.step = ++step, .loss = loss, .tokens = 1, .seconds = 1}, {}, false);
    }
  }
  const RunReport run = read_run(folder_ / "metrics.jsonl");
  EXPECT_EQ(report_json(run)["lowest_loss"], 2.0);
  EXPECT_EQ(report_json(run)["lowest_loss_step"], 3);
  EXPECT_TRUE(report_json(run)["last_loss"].is_null());
}

TEST_F(Report, AFolderWithoutMetricsOrWithoutStepsIsAnErrorThatNamesIt) {
  create_folders(folder_);
  const auto message = [this]() -> std::string {
    try {
      read_run(folder_);
    } catch (const UserError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(message(), HasSubstr("metrics.jsonl"));
  MetricsFile(folder_ / "metrics.jsonl", 0);
  EXPECT_THAT(message(), HasSubstr("holds no training step"));
}

// The JSON that the page's script reads.
Json page_data(const std::string& page) {
  const std::string open = "<script type=\"application/json\" id=\"data\">";
  const size_t begin = page.find(open) + open.size();
  return parse_json(page.substr(begin, page.find("</script>", begin) - begin), "page");
}

TEST_F(Report, ThePageStandsAloneAndHoldsTheCurves) {
  const std::vector<RunReport> runs = {read_run(make_run("a", {4})), read_run(make_run("b", {2}))};
  const std::string page = report_page(runs);
  EXPECT_THAT(page, HasSubstr("Chart.js v"));
  EXPECT_THAT(page, testing::Not(HasSubstr("{{")));
  EXPECT_THAT(page, testing::Not(HasSubstr(" src=")));
  EXPECT_THAT(page, testing::Not(HasSubstr("<link")));
  EXPECT_THAT(page, HasSubstr("<td>1-4</td><td>1-2</td>"));
  const Json data = page_data(page);
  ASSERT_EQ(data.size(), 2u);
  EXPECT_EQ(data[0]["train"]["step"], Json({1, 2, 3, 4}));
  EXPECT_EQ(data[0]["train"]["loss"], Json({100.0, 50.0, 100. / 3, 25.0}));
  EXPECT_EQ(data[0]["train"]["tps"], Json({5.0, 50.0, 50.0, 50.0}));
  EXPECT_EQ(data[1]["validation"], Json({{"step", {2}}, {"loss", {3.02}}}));
}

TEST_F(Report, LongRunsAreAveragedInGroupsOfSteps) {
  const Json data = page_data(report_page(std::vector{read_run(make_run("a", {4000}))}));
  EXPECT_EQ(data[0]["steps_per_point"], 3);
  EXPECT_EQ(data[0]["train"]["step"].size(), 1334u);
  EXPECT_EQ(data[0]["train"]["step"].back(), 4000);
  EXPECT_DOUBLE_EQ(data[0]["train"]["loss"][0].get<double>(), (100 + 50 + 100. / 3) / 3);
  EXPECT_DOUBLE_EQ(data[0]["train"]["tps"][0].get<double>(), 150. / 12);
}

TEST_F(Report, ARunsNameCannotBreakThePage) {
  RunReport run = read_run(make_run("a", {2}));
  run.name = "</script><b>&\"\xff";
  const std::string page = report_page(std::span(&run, 1));
  EXPECT_THAT(page, HasSubstr("<td>&lt;/script&gt;&lt;b&gt;&amp;"));
  EXPECT_THAT(page_data(page)[0]["name"].get<std::string>(), testing::StartsWith("</script><b>&\""));
}

}  // namespace
}  // namespace trine
