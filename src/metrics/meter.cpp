#include "metrics/meter.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "base/files.h"
#include "base/format.h"
#include "base/log.h"
#include "base/progress.h"
#include "metrics/lines.h"
#include "metrics/metrics_file.h"
#include "metrics/tensorboard.h"

namespace trine {
namespace {

using Clock = std::chrono::steady_clock;
using Scalar = std::pair<std::string_view, double>;

constexpr double kGib = 1 << 30;

}  // namespace

struct Meter::State {
  MeterOptions options;
  std::optional<MetricsFile> file;
  std::optional<EventFile> events;
  std::optional<Progress> progress;

  Window window;
  StepRecord last;  // of this process; step 0: none yet
  bool last_is_shown = false;
  std::vector<StepTiming> timings;
  Clock::time_point start;  // of the first step
  uint64_t peak_bytes = 0;

  // The line of the last step, and the window's figures for TensorBoard.
  void show_last_step() {
    log::info("{}", step_line(last, window, options.speed));
    if (events) write_window_scalars();
    window = {};
    last_is_shown = true;
  }

  void write_window_scalars() {
    const double steps = static_cast<double>(window.num_steps);
    const double tps = options.speed.tokens_per_second(window.tokens, window.seconds);
    std::vector<Scalar> scalars = {{"throughput(tps)", tps},
                                   {"time_metrics/end_to_end(s)", window.seconds / steps},
                                   {"time_metrics/data_loading(s)", window.data_seconds / steps},
                                   {"memory/peak(GiB)", static_cast<double>(window.memory.peak_bytes) / kGib}};
    if (window.seconds > 0) scalars.emplace_back("time_metrics/data_loading(%)", 100 * window.data_seconds / window.seconds);
    if (window.memory.capacity_bytes > 0) {
      const double share = static_cast<double>(window.memory.peak_bytes) / static_cast<double>(window.memory.capacity_bytes);
      scalars.emplace_back("memory/peak(%)", 100 * share);
    }
    if (options.speed.flops_per_token > 0) scalars.emplace_back("tflops", options.speed.tflops(tps));
    if (const double mfu = options.speed.mfu(tps); mfu >= 0) scalars.emplace_back("mfu(%)", mfu);
    events->scalars(last.step, scalars);
  }
};

Meter::Meter(const MeterOptions& options) : state_(std::make_unique<State>()) {
  state_->options = options;
  if (!options.run_folder.empty()) {
    create_folders(options.run_folder);
    state_->file.emplace(options.run_folder / "metrics.jsonl", options.resumed_step);
    if (options.tensorboard) state_->events.emplace(options.run_folder / "tensorboard", options.resumed_step);
  }
  if (options.status_line) {
    state_->progress.emplace(ProgressOptions{.label = "training", .total = options.num_steps, .plain_interval = 0});
  }
}

Meter::~Meter() = default;

void Meter::record(const StepRecord& step) {
  State& s = *state_;
  const bool first_of_process = s.timings.empty();
  if (first_of_process) s.start = Clock::now() - std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(step.seconds));
  s.last = step;
  s.last_is_shown = false;
  s.window.add(step);
  s.timings.push_back({step.step, step.tokens, step.seconds, step.data_seconds});
  s.peak_bytes = std::max(s.peak_bytes, step.memory.peak_bytes);

  if (s.file) s.file->write(step, s.options.speed, first_of_process);
  if (s.events) {
    const Scalar scalars[] = {{"loss_metrics/global_avg_loss", step.loss}, {"grad_norm", step.grad_norm}, {"lr", step.lr}};
    s.events->scalars(step.step, scalars);
  }
  if (first_of_process || step.step == s.options.num_steps || (s.options.log_freq > 0 && step.step % s.options.log_freq == 0)) {
    s.show_last_step();
  }
  if (s.progress) {
    const double tps = s.options.speed.tokens_per_second(step.tokens, step.seconds);
    s.progress->update(step.step, fmt::format("loss {:.4f}  {} tokens/s", step.loss, with_commas(std::llround(tps))));
  }
}

void Meter::record(const ValidationRecord& validation) {
  State& s = *state_;
  s.peak_bytes = std::max(s.peak_bytes, validation.memory.peak_bytes);
  log::info("{}", validation_line(validation, s.options.speed));
  if (s.file) s.file->write(validation, s.options.speed);
  if (s.events) {
    const double tps = s.options.speed.tokens_per_second(validation.tokens, validation.seconds);
    const Scalar scalars[] = {{"validation_metrics/loss", validation.loss},
                              {"validation_metrics/perplexity", std::exp(validation.loss)},
                              {"validation_metrics/throughput(tps)", tps}};
    s.events->scalars(validation.step, scalars);
  }
}

Summary Meter::finish() {
  State& s = *state_;
  s.progress.reset();
  double total_seconds = 0;
  if (!s.timings.empty()) {
    if (!s.last_is_shown) s.show_last_step();
    total_seconds = std::chrono::duration<double>(Clock::now() - s.start).count();
  }
  Summary summary = summarize(s.timings, s.options.warmup_steps, total_seconds);
  summary.peak_bytes = s.peak_bytes;
  for (const std::string& line : summary_lines(summary, s.options.speed)) log::info("{}", line);
  return summary;
}

}  // namespace trine
