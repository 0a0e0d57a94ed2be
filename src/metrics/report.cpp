#include "metrics/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/format.h"

namespace trine {
namespace {

namespace fs = std::filesystem;

// The record of lowest loss; NaN is never lowest unless all are.
template <class Records>
const auto& lowest(const Records& records) {
  return *std::ranges::min_element(records, [](const auto& a, const auto& b) {
    return a.loss < b.loss || (std::isnan(b.loss) && !std::isnan(a.loss));
  });
}

template <class Record>
std::string loss_at(const Record& record) {
  return fmt::format("{:.4f} (step {})", record.loss, record.step);
}

OrderedJson or_null(double value) { return std::isfinite(value) ? OrderedJson(value) : OrderedJson(); }

}  // namespace

RunReport read_run(const fs::path& run) {
  const fs::path file = fs::is_directory(run) ? run / "metrics.jsonl" : run;
  if (!fs::exists(file)) throw UserError("there is no {}: {} is no run folder, or its run has not begun", file.string(), run.string());
  RunReport report{.name = run.string(), .history = read_metrics(file)};
  const auto& steps = report.history.steps;
  if (steps.empty()) throw UserError("{} holds no training step", file.string());

  report.num_processes = std::max<int64_t>(1, std::ranges::count_if(steps, &MetricsHistory::Step::first_of_process));
  std::vector<StepTiming> timings;
  double seconds = 0;
  const bool only_first_steps = std::ranges::all_of(steps, &MetricsHistory::Step::first_of_process);
  bool mfu_known = true;
  report.mfu = 0;
  for (const auto& step : steps) {
    report.tokens += step.tokens;
    report.peak_bytes = std::max(report.peak_bytes, step.memory.peak_bytes);
    if (step.first_of_process && !only_first_steps) continue;
    timings.push_back({step.step, step.tokens, step.seconds, step.data_seconds});
    seconds += step.seconds;
    report.tflops += step.tflops * step.seconds;
    report.mfu += step.mfu * step.seconds;
    mfu_known = mfu_known && step.mfu >= 0;
  }
  report.speed = stretch_of(timings);
  report.tflops = seconds > 0 ? report.tflops / seconds : 0;
  report.mfu = mfu_known && seconds > 0 ? report.mfu / seconds : -1;
  for (const auto& validation : report.history.validations) report.peak_bytes = std::max(report.peak_bytes, validation.memory.peak_bytes);
  return report;
}

std::vector<std::vector<std::string>> report_cells(std::span<const RunReport> runs) {
  std::vector<std::vector<std::string>> cells;
  const auto row = [&](const char* heading, const std::function<std::string(const RunReport&)>& figure) {
    std::vector<std::string>& added = cells.emplace_back();
    added.push_back(heading);
    for (const RunReport& run : runs) added.push_back(figure(run));
  };
  const auto validation_row = [&](const char* heading, const std::function<std::string(const RunReport&)>& figure) {
    const auto none = [](const RunReport& run) { return run.history.validations.empty(); };
    if (std::ranges::all_of(runs, none)) return;
    row(heading, [&](const RunReport& run) { return none(run) ? std::string("-") : figure(run); });
  };
  row("run", [](const RunReport& run) { return run.name; });
  row("steps", [](const RunReport& run) {
    const std::string resumed = run.num_processes > 1 ? fmt::format(", resumed {}x", run.num_processes - 1) : "";
    return fmt::format("{}-{}{}", run.history.steps.front().step, run.history.steps.back().step, resumed);
  });
  row("tokens", [](const RunReport& run) { return with_commas(run.tokens); });
  row("first loss", [](const RunReport& run) { return loss_at(run.history.steps.front()); });
  row("last loss", [](const RunReport& run) { return loss_at(run.history.steps.back()); });
  row("lowest loss", [](const RunReport& run) { return loss_at(lowest(run.history.steps)); });
  validation_row("first validation", [](const RunReport& run) { return loss_at(run.history.validations.front()); });
  validation_row("last validation", [](const RunReport& run) { return loss_at(run.history.validations.back()); });
  validation_row("lowest validation", [](const RunReport& run) { return loss_at(lowest(run.history.validations)); });
  validation_row("last perplexity",
                 [](const RunReport& run) { return fmt::format("{:.2f}", std::exp(run.history.validations.back().loss)); });
  row("tokens/s", [](const RunReport& run) { return with_commas(std::llround(run.speed.tokens_per_second)); });
  row("median step", [](const RunReport& run) { return in_duration(run.speed.median_seconds); });
  row("first step", [](const RunReport& run) { return in_duration(run.history.steps.front().seconds); });
  row("TFLOP/s", [](const RunReport& run) { return run.tflops > 0 ? fmt::format("{:.2f}", run.tflops) : "n/a"; });
  row("MFU", [](const RunReport& run) { return run.mfu >= 0 ? fmt::format("{:.2f}%", run.mfu) : "n/a"; });
  row("waiting for data", [](const RunReport& run) { return fmt::format("{:.1f}%", 100 * run.speed.data_share); });
  row("peak memory", [](const RunReport& run) { return in_bytes(run.peak_bytes); });
  return cells;
}

std::string report_text(std::span<const RunReport> runs) {
  const auto cells = report_cells(runs);
  std::vector<size_t> widths(runs.size() + 1, 0);
  for (const auto& row : cells) {
    for (size_t column = 0; column < row.size(); ++column) widths[column] = std::max(widths[column], row[column].size());
  }
  std::string text;
  for (const auto& row : cells) {
    for (size_t column = 0; column + 1 < row.size(); ++column) text += fmt::format("{:<{}}", row[column], widths[column] + 2);
    text += row.back() + "\n";
  }
  return text;
}

OrderedJson report_json(const RunReport& run) {
  const auto& [steps, validations] = run.history;
  OrderedJson json = {{"run", run.name},
                      {"first_step", steps.front().step},
                      {"last_step", steps.back().step},
                      {"num_processes", run.num_processes},
                      {"tokens", run.tokens},
                      {"first_loss", or_null(steps.front().loss)},
                      {"last_loss", or_null(steps.back().loss)},
                      {"lowest_loss", or_null(lowest(steps).loss)},
                      {"lowest_loss_step", lowest(steps).step}};
  if (!validations.empty()) {
    json["validation"] = {{"first_loss", or_null(validations.front().loss)},     {"first_step", validations.front().step},
                          {"last_loss", or_null(validations.back().loss)},       {"last_step", validations.back().step},
                          {"lowest_loss", or_null(lowest(validations).loss)},    {"lowest_step", lowest(validations).step}};
  }
  json["tokens_per_second"] = run.speed.tokens_per_second;
  json["median_seconds"] = run.speed.median_seconds;
  json["first_step_seconds"] = steps.front().seconds;
  json["tflops"] = run.tflops > 0 ? OrderedJson(run.tflops) : OrderedJson();
  json["mfu"] = run.mfu >= 0 ? OrderedJson(run.mfu) : OrderedJson();
  json["data_share"] = run.speed.data_share;
  json["peak_memory_bytes"] = run.peak_bytes;
  return json;
}

}  // namespace trine
