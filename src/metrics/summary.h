// The speed of a run in figures that can be compared: first step, warm-up steps and sustained steps apart.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "metrics/records.h"

namespace trine {

// What the summary keeps of each step.
struct StepTiming {
  int64_t step = 0;
  int64_t tokens = 0;
  double seconds = 0;
  double data_seconds = 0;
};

// Figures of some steps; all zero if there are none.
struct Stretch {
  int64_t first_step = 0, last_step = 0, count = 0;
  double median_seconds = 0, mean_seconds = 0;
  double tokens_per_second = 0;  // all tokens / all seconds
  double data_share = 0;         // of the time, 0..1
};

// The figures of `steps`, which follow each other.
Stretch stretch_of(std::span<const StepTiming> steps);

struct Summary {
  Stretch first;      // the first step of the process
  Stretch warmup;     // the `warmup_steps` after it
  Stretch sustained;  // the rest
  int64_t tokens = 0;
  double step_seconds = 0;   // inside steps
  double other_seconds = 0;  // validation, saving and whatever else lay between steps
  uint64_t peak_bytes = 0;
};

// Splits the steps of one process. `total_seconds`: from its first step's start to now.
Summary summarize(std::span<const StepTiming> steps, int64_t warmup_steps, double total_seconds);

// The lines that close a run.
std::vector<std::string> summary_lines(const Summary& summary, const Speedometer& speed);

}  // namespace trine
