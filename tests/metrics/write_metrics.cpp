// write_metrics FOLDER RESUMED_STEP LAST_STEP: a made-up run whose figures tests/parity/test_tensorboard.py knows.
#include <cstdlib>

#include "metrics/meter.h"

int main(int, char** arguments) {
  const int64_t resumed_step = std::atoll(arguments[2]), last_step = std::atoll(arguments[3]);
  trine::Meter meter({.run_folder = arguments[1],
                      .resumed_step = resumed_step,
                      .num_steps = 1000,
                      .log_freq = 5,
                      .tensorboard = true,
                      .speed = {.flops_per_token = 2e9, .peak_flops = 1e13}});
  for (int64_t step = resumed_step + 1; step <= last_step; ++step) {
    const double n = static_cast<double>(step);
    meter.record(trine::StepRecord{.step = step,
                                   .loss = 8 / n,
                                   .grad_norm = n / 4,
                                   .lr = n * 1e-4,
                                   .tokens = 1000,
                                   .valid_tokens = 999,
                                   .seconds = 0.5,
                                   .data_seconds = 0.125,
                                   .memory = {.peak_bytes = 1ull << 30, .capacity_bytes = 4ull << 30}});
    if (step % 4 == 0) meter.record(trine::ValidationRecord{.step = step, .loss = 2, .tokens = 100, .valid_tokens = 99, .seconds = 2});
  }
  meter.finish();
}
