// The one place that a training loop reports to: every step goes to metrics.jsonl and TensorBoard, some to the console, all to the
// summary at the end.
//
// Only the time inside steps counts as throughput. The first step of a process (set-up, allocation, caches) is a window of its own.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "metrics/records.h"
#include "metrics/summary.h"

namespace trine {

struct MeterOptions {
  std::filesystem::path run_folder{};  // metrics.jsonl and tensorboard/ go there; empty: no files
  int64_t resumed_step = 0;          // what the files hold past this step is cut; 0: a fresh run
  int64_t num_steps = 0;             // the last step of the run
  int64_t log_freq = 10;             // steps between console lines
  int64_t warmup_steps = 0;          // after the first step of the process, left out of the sustained figures
  bool tensorboard = false;
  bool status_line = true;           // remaining time at the bottom of a terminal
  Speedometer speed{};
};

class Meter {
 public:
  // Opens the files. Throws UserError if they cannot be written.
  explicit Meter(const MeterOptions& options);
  ~Meter();

  // Throws RunStopped if the disk is full.
  void record(const StepRecord& step);
  void record(const ValidationRecord& validation);

  // Prints the last step if no line showed it, then the summary. Call once, also when the run ends early.
  Summary finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trine
