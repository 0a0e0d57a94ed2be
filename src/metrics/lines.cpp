#include "metrics/lines.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>

#include "base/format.h"

namespace trine {
namespace {

std::string tps_field(double tokens_per_second, const Speedometer& speed) {
  std::string field = "tps: " + with_commas(std::llround(tokens_per_second));
  if (speed.num_ranks > 1) {
    field += fmt::format(" ({}/rank)", with_commas(std::llround(tokens_per_second / static_cast<double>(speed.num_ranks))));
  }
  return field;
}

// 12,345.67
std::string two_decimals(double value) {
  const int64_t hundredths = std::llround(value * 100);
  return fmt::format("{}.{:02}", with_commas(hundredths / 100), hundredths % 100);
}

}  // namespace

void Window::add(const StepRecord& step) {
  ++num_steps;
  tokens += step.tokens;
  seconds += step.seconds;
  data_seconds += step.data_seconds;
  if (step.memory.peak_bytes >= memory.peak_bytes) memory = step.memory;
}

std::string step_line(const StepRecord& step, const Window& window, const Speedometer& speed) {
  const double tps = speed.tokens_per_second(window.tokens, window.seconds);
  const double gib = static_cast<double>(window.memory.peak_bytes) / static_cast<double>(1 << 30);
  const double share = window.memory.capacity_bytes > 0
                           ? 100 * static_cast<double>(window.memory.peak_bytes) / static_cast<double>(window.memory.capacity_bytes)
                           : 0;
  const double tflops = speed.tflops(tps);
  const double mfu = speed.mfu(tps);
  return fmt::format("step: {:2}  loss: {:>8.5f}  grad_norm: {:>7.4f}  memory: {:5.2f}GiB({:.2f}%)  {}  tflops: {}  mfu: {}", step.step,
                     step.loss, step.grad_norm, gib, share, tps_field(tps, speed), two_decimals(tflops),
                     mfu < 0 ? std::string("n/a") : fmt::format("{:.2f}%", mfu));
}

std::string validation_line(const ValidationRecord& validation, const Speedometer& speed) {
  return fmt::format("validate step: {:2}  loss: {:>7.4f}  ppl: {:.2f}  tokens: {}  {}", validation.step, validation.loss,
                     std::exp(validation.loss), with_commas(validation.tokens),
                     tps_field(speed.tokens_per_second(validation.tokens, validation.seconds), speed));
}

}  // namespace trine
