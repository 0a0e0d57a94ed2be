#include "metrics/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/format.h"

namespace trine {
namespace {

std::string stretch_line(std::string_view name, const Stretch& stretch, const Speedometer& speed) {
  std::string steps = fmt::format("{}", stretch.first_step);
  if (stretch.count > 1) steps += fmt::format("-{}", stretch.last_step);
  std::string line = fmt::format("  {:<10} {:>11}  ", name, steps);
  line += stretch.count > 1
              ? fmt::format("median {}, mean {} a step", in_duration(stretch.median_seconds), in_duration(stretch.mean_seconds))
              : in_duration(stretch.mean_seconds);
  line += fmt::format("  {} tokens/s", with_commas(std::llround(stretch.tokens_per_second)));
  if (speed.flops_per_token > 0) line += fmt::format("  {:.2f} TFLOP/s", speed.tflops(stretch.tokens_per_second));
  const double mfu = speed.mfu(stretch.tokens_per_second);
  if (mfu >= 0) line += fmt::format("  MFU {:.2f}%", mfu);
  return line + fmt::format("  waiting for data {:.1f}%", 100 * stretch.data_share);
}

}  // namespace

Stretch stretch_of(std::span<const StepTiming> steps) {
  Stretch stretch;
  if (steps.empty()) return stretch;
  stretch.first_step = steps.front().step;
  stretch.last_step = steps.back().step;
  stretch.count = static_cast<int64_t>(steps.size());
  std::vector<double> seconds;
  double total = 0, data = 0;
  int64_t tokens = 0;
  for (const StepTiming& step : steps) {
    seconds.push_back(step.seconds);
    total += step.seconds;
    data += step.data_seconds;
    tokens += step.tokens;
  }
  std::ranges::sort(seconds);
  const size_t middle = seconds.size() / 2;
  stretch.median_seconds = seconds.size() % 2 == 1 ? seconds[middle] : (seconds[middle - 1] + seconds[middle]) / 2;
  stretch.mean_seconds = total / static_cast<double>(steps.size());
  if (total > 0) {
    stretch.tokens_per_second = static_cast<double>(tokens) / total;
    stretch.data_share = data / total;
  }
  return stretch;
}

Summary summarize(std::span<const StepTiming> steps, int64_t warmup_steps, double total_seconds) {
  Summary summary;
  const size_t first = std::min<size_t>(steps.size(), 1);
  const size_t warmup = std::min(steps.size() - first, static_cast<size_t>(std::max<int64_t>(warmup_steps, 0)));
  summary.first = stretch_of(steps.subspan(0, first));
  summary.warmup = stretch_of(steps.subspan(first, warmup));
  summary.sustained = stretch_of(steps.subspan(first + warmup));
  for (const StepTiming& step : steps) {
    summary.tokens += step.tokens;
    summary.step_seconds += step.seconds;
  }
  summary.other_seconds = std::max(0.0, total_seconds - summary.step_seconds);
  return summary;
}

std::vector<std::string> summary_lines(const Summary& summary, const Speedometer& speed) {
  if (summary.first.count == 0) return {"no step was done"};
  const int64_t count = summary.first.count + summary.warmup.count + summary.sustained.count;
  std::vector<std::string> lines;
  lines.push_back(fmt::format("{} step{}, {} tokens in {}: {} in steps, {} between them (validation, saving)", with_commas(count),
                              count == 1 ? "" : "s", with_commas(summary.tokens), in_duration(summary.step_seconds + summary.other_seconds),
                              in_duration(summary.step_seconds), in_duration(summary.other_seconds)));
  lines.push_back(stretch_line("first", summary.first, speed));
  if (summary.warmup.count > 0) lines.push_back(stretch_line("warm-up", summary.warmup, speed));
  lines.push_back(summary.sustained.count > 0 ? stretch_line("sustained", summary.sustained, speed)
                                              : "  sustained: no steps after the first and metrics.warmup_steps");
  if (summary.peak_bytes > 0) lines.push_back("  peak memory " + in_bytes(summary.peak_bytes));
  return lines;
}

}  // namespace trine
