#include "verify/losses.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "metrics/metrics_file.h"

namespace trine {
namespace {

namespace fs = std::filesystem;

enum class Kind { kTrain, kValidation };  // at one step, training comes first

// Figures of one record by name, in the order in which they are compared.
using Record = std::vector<std::pair<const char*, double>>;
using Records = std::map<std::pair<int64_t, Kind>, Record>;

struct Run {
  Records records;
  int64_t last_step = 0;
};

Run read_run(const fs::path& run) {
  const fs::path file = fs::is_directory(run) ? run / "metrics.jsonl" : run;
  if (!fs::exists(file)) {
    throw UserError("{}: there is no such file; expected a run folder with a metrics.jsonl, or such a file", file.string());
  }
  const MetricsHistory history = read_metrics(file);
  if (history.steps.empty()) throw UserError("{}: holds no training step, so that there is nothing to compare", file.string());
  Run result;
  const auto add = [&](int64_t step, Kind kind, Record record) {
    if (!result.records.emplace(std::pair(step, kind), std::move(record)).second) {
      throw UserError("{}: step {} is there twice; a run's file has each step once", file.string(), step);
    }
  };
  // Counts are far below 2^53, where a double holds them exactly.
  for (const MetricsHistory::Step& step : history.steps) {
    add(step.step, Kind::kTrain,
        {{"loss", step.loss},
         {"grad_norm", step.grad_norm},
         {"lr", step.lr},
         {"tokens", static_cast<double>(step.tokens)},
         {"valid_tokens", static_cast<double>(step.valid_tokens)}});
    result.last_step = std::max(result.last_step, step.step);
  }
  for (const ValidationRecord& validation : history.validations) {
    add(validation.step, Kind::kValidation,
        {{"loss", validation.loss},
         {"tokens", static_cast<double>(validation.tokens)},
         {"valid_tokens", static_cast<double>(validation.valid_tokens)}});
  }
  return result;
}

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

const char* name_of(Kind kind) { return kind == Kind::kTrain ? "train" : "validation"; }

}  // namespace

LossComparison compare_losses(const fs::path& run_a, const fs::path& run_b, bool common_steps_only) {
  Run a = read_run(run_a), b = read_run(run_b);
  if (common_steps_only) {
    const int64_t last = std::min(a.last_step, b.last_step);
    for (Records* records : {&a.records, &b.records}) std::erase_if(*records, [&](const auto& entry) { return entry.first.first > last; });
  }
  LossComparison result;
  const auto note = [&](const std::pair<int64_t, Kind>& key, const char* field, std::string of_a, std::string of_b) {
    ++result.num_different;
    if (!result.first) result.first = {name_of(key.second), key.first, field, std::move(of_a), std::move(of_b)};
  };
  Records all = a.records;
  all.insert(b.records.begin(), b.records.end());
  for (const auto& [key, unused] : all) {
    const auto of_a = a.records.find(key), of_b = b.records.find(key);
    if (of_a == a.records.end() || of_b == b.records.end()) {
      const bool in_a = of_a != a.records.end();
      note(key, "record", in_a ? "present" : "none", in_a ? "none" : "present");
      continue;
    }
    const Record& left = of_a->second;
    const Record& right = of_b->second;
    if (key.second == Kind::kTrain) {
      ++result.num_steps;
      const double loss = left.front().second, difference = std::abs(loss - right.front().second);
      double& largest = result.largest_relative_loss_difference;
      if (difference > 0) largest = std::max(largest, difference / std::abs(loss));
    } else {
      ++result.num_validations;
    }
    for (size_t i = 0; i < left.size(); ++i) {
      if (same(left[i].second, right[i].second)) continue;
      note(key, left[i].first, fmt::format("{}", left[i].second), fmt::format("{}", right[i].second));
      break;
    }
  }
  return result;
}

std::string in_words(const LossComparison::Difference& difference) {
  const std::string where = fmt::format("step {}{}", difference.step, difference.kind == "train" ? "" : ", " + difference.kind);
  return fmt::format("{}: {} {} and {}", where, difference.field, difference.a, difference.b);
}

}  // namespace trine
