#include "optim/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/errors.h"
#include "base/log.h"

namespace trine {
namespace {

const std::vector<std::string> kDecayNames = {"linear", "sqrt", "cosine"};  // in the order of LrDecay

void check(bool holds, const char* option, double value, const char* allowed) {
  if (!holds) throw UserError("{} is {}; it must be {}", option, value, allowed);
}

template <class Value>
std::string shown(const Value& value) {
  return fmt::format("{}", value);
}

std::string shown(const std::optional<double>& ratio) { return ratio ? fmt::format("{}", *ratio) : "not given"; }

std::string shown(LrDecay decay) { return kDecayNames[static_cast<size_t>(decay)]; }

}  // namespace

LrDecay lr_decay_from_name(std::string_view name) {
  const auto found = std::find(kDecayNames.begin(), kDecayNames.end(), name);
  if (found == kDecayNames.end()) throw UserError("lr_scheduler.decay_type \"{}\" is not known.{}", name, suggest(name, kDecayNames));
  return static_cast<LrDecay>(found - kDecayNames.begin());
}

LrSchedule::LrSchedule(const LrScheduleOptions& options) : options_(options) {
  const auto& [lr, num_steps, warmup_steps, decay_ratio, decay, min_lr_factor] = options;
  check(std::isfinite(lr) && lr >= 0, "optimizer.lr", lr, "a finite number, 0 or more");
  check(num_steps >= 1, "training.steps", static_cast<double>(num_steps), "1 or more");
  check(warmup_steps >= 0, "lr_scheduler.warmup_steps", static_cast<double>(warmup_steps), "0 or more");
  check(min_lr_factor >= 0 && min_lr_factor <= 1, "lr_scheduler.min_lr_factor", min_lr_factor, "between 0 and 1");
  if (decay_ratio) check(*decay_ratio >= 0 && *decay_ratio <= 1, "lr_scheduler.decay_ratio", *decay_ratio, "between 0 and 1");

  warmup_ = std::min(warmup_steps, num_steps);
  if (warmup_ < warmup_steps) {
    log::warning("lr_scheduler.warmup_steps {} is more than training.steps {}: the whole run is warm-up, cut to {} steps", warmup_steps,
                 num_steps, warmup_);
  }
  // nearbyint rounds halves to even, as Python's round does.
  const int64_t wanted = decay_ratio ? static_cast<int64_t>(std::nearbyint(static_cast<double>(num_steps) * *decay_ratio)) : num_steps;
  decay_ = std::min(wanted, num_steps - warmup_);
  if (decay_ratio && decay_ < wanted) {
    log::warning("warm-up ({} steps) and decay ({} steps, lr_scheduler.decay_ratio {}) are longer than training.steps {}: "
                 "decay cut to {} steps",
                 warmup_, wanted, *decay_ratio, num_steps, decay_);
  }
  stable_ = num_steps + 1 - warmup_ - decay_;
}

double LrSchedule::factor(int64_t step) const {
  if (step <= warmup_) return static_cast<double>(step) / static_cast<double>(warmup_);
  const int64_t decayed = step - warmup_ - stable_;
  if (decayed <= 0 || decay_ == 0) return 1;
  const double progress = std::min(1.0, static_cast<double>(decayed) / static_cast<double>(decay_));
  double remaining = 0;
  switch (options_.decay) {
    case LrDecay::kLinear: remaining = 1 - progress; break;
    case LrDecay::kSqrt: remaining = 1 - std::sqrt(progress); break;
    case LrDecay::kCosine: remaining = 0.5 * (1 + std::cos(std::numbers::pi * progress)); break;
  }
  return options_.min_lr_factor + (1 - options_.min_lr_factor) * remaining;
}

std::vector<std::string> schedule_changes(const LrScheduleOptions& saved, const LrScheduleOptions& now) {
  std::vector<std::string> changes;
  const auto compare = [&](const char* name, const auto& before, const auto& after) {
    if (before != after) changes.push_back(fmt::format("{}: {} -> {}", name, shown(before), shown(after)));
  };
  compare("optimizer.lr", saved.lr, now.lr);
  compare("training.steps", saved.num_steps, now.num_steps);
  compare("lr_scheduler.warmup_steps", saved.warmup_steps, now.warmup_steps);
  compare("lr_scheduler.decay_ratio", saved.decay_ratio, now.decay_ratio);
  compare("lr_scheduler.decay_type", saved.decay, now.decay);
  compare("lr_scheduler.min_lr_factor", saved.min_lr_factor, now.min_lr_factor);
  return changes;
}

}  // namespace trine
