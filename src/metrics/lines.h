// The console lines of a run.
#pragma once

#include <string>

#include "metrics/records.h"

namespace trine {

// Figures of the steps since the last line.
struct Window {
  int64_t num_steps = 0;
  int64_t tokens = 0;
  double seconds = 0;
  double data_seconds = 0;
  MemoryUse memory;  // the highest of the steps

  void add(const StepRecord& step);
};

// `step:  1  loss:  6.54000  grad_norm:  1.2345  memory:  3.21GiB(13.38%)  tps: 1,234  tflops: 12.34  mfu: 1.23%`, with the loss and
// norm of `step` and the averages of `window`; ` (19/rank)` follows tps with several ranks; `mfu: n/a` if the peak is unknown.
std::string step_line(const StepRecord& step, const Window& window, const Speedometer& speed);

// `validate step:  1  loss:  6.5400  ppl: 692.29  tokens: 8,192  tps: 1,234`.
std::string validation_line(const ValidationRecord& validation, const Speedometer& speed);

}  // namespace trine
