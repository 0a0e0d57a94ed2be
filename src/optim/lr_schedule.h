// The learning rate as a function of the step alone, so that resuming cannot change it.
//
// torchtitan's schedule (components/optimizer/lr_scheduler.py): linear warm-up, a stable stretch, a decay. With N steps, W of
// warm-up, D = round(N·decay_ratio) of decay (all N - W if the ratio is not given) and S = N + 1 - W - D stable ones, step n (1-based) has
// the factor
//     n / W                          n <= W
//     1                              n <= W + S
//     min + (1 - min)·a(p)           beyond, p = (n - W - S) / D,  a(p) = 1 - p | 1 - sqrt(p) | (1 + cos(pi·p)) / 2.
// S counts one step more than N, so that the last step does not have the rate 0.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trine {

enum class LrDecay { kLinear, kSqrt, kCosine };

// "linear", "sqrt" or "cosine". Throws UserError for another name.
LrDecay lr_decay_from_name(std::string_view name);

struct LrScheduleOptions {
  double lr = 0;  // at factor 1
  int64_t num_steps = 0;
  int64_t warmup_steps = 0;
  std::optional<double> decay_ratio{};  // 0..1
  LrDecay decay = LrDecay::kLinear;
  double min_lr_factor = 0;  // 0..1
};

class LrSchedule {
 public:
  // A warm-up longer than the run, or a decay that overlaps the warm-up, is cut with a warning in the log. Throws UserError for values
  // out of range.
  explicit LrSchedule(const LrScheduleOptions& options);

  // Of step `step`, 1..num_steps; beyond the last step the decay's end holds.
  double factor(int64_t step) const;
  double lr(int64_t step) const { return options_.lr * factor(step); }

  const LrScheduleOptions& options() const { return options_; }

 private:
  LrScheduleOptions options_;  // as given
  int64_t warmup_ = 0, stable_ = 0, decay_ = 0;  // W, S, D after cutting
};

// What differs between the schedule of a checkpoint and that of the run that resumes it, as "lr_scheduler.warmup_steps: 10 -> 20"; to
// be reported, since the rate of the coming steps is then not the one of an uninterrupted run.
std::vector<std::string> schedule_changes(const LrScheduleOptions& saved, const LrScheduleOptions& now);

}  // namespace trine
