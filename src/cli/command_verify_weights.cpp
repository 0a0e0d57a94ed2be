#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/errors.h"
#include "base/format.h"
#include "base/json.h"
#include "checkpoint/expert_names.h"
#include "cli/arguments.h"
#include "cli/command_verify.h"
#include "verify/weights.h"

namespace trine {
namespace {

constexpr size_t kShownDrifts = 20;

OrderedJson as_json(const WeightReport& report) {
  OrderedJson json = {{"passed", report.passed()}, {"tensors", report.tensors}, {"values", report.values}, {"dtypes", report.dtypes}};
  json["checks"] = OrderedJson::array();
  for (const WeightCheck& check : report.checks)
    json["checks"].push_back({{"name", check.name}, {"passed", check.passed}, {"detail", check.detail}});
  json["notes"] = report.notes;
  return json;
}

OrderedJson as_json(const WeightComparison& comparison) {
  OrderedJson json = {{"equal", comparison.equal}, {"compared", comparison.drifts.size()}, {"only_in_first", comparison.only_in_a},
                      {"only_in_second", comparison.only_in_b}, {"other_shape", comparison.other_shape}, {"notes", comparison.notes}};
  json["drifts"] = OrderedJson::array();
  for (const TensorDrift& drift : comparison.drifts) {  // JSON has no infinity: null
    json["drifts"].push_back(
        {{"name", drift.name}, {"relative", drift.relative}, {"largest", drift.largest}, {"different", drift.different}});
  }
  return json;
}

void print(const WeightReport& report) {
  for (const WeightCheck& check : report.checks) fmt::print("{}  {:<16} {}\n", check.passed ? "pass" : "FAIL", check.name, check.detail);
  for (const std::string& note : report.notes) fmt::print("note  {}\n", note);
}

void print(const WeightComparison& comparison) {
  fmt::print("{} tensors compared, {} equal in every value\n", comparison.drifts.size(), comparison.equal);
  for (size_t i = 0; i < comparison.drifts.size() && comparison.drifts[i].different; ++i) {
    const TensorDrift& drift = comparison.drifts[i];
    if (i == 0) fmt::print("{:>12} {:>12} {:>14}  tensor, largest drift first\n", "relative", "largest", "values");
    if (i == kShownDrifts) {
      fmt::print("... and {} more tensors differ (--json lists all)\n",
                 static_cast<int64_t>(comparison.drifts.size() - i) - comparison.equal);
      break;
    }
    fmt::print("{:>12.3e} {:>12.3e} {:>14}  {}\n", drift.relative, drift.largest, with_commas(drift.different), drift.name);
  }
  for (const auto& [title, names] :
       {std::pair("only in the first", &comparison.only_in_a), std::pair("only in the second", &comparison.only_in_b),
        std::pair("other shape", &comparison.other_shape)}) {
    for (const ExpertGroup& group : group_experts(*names)) fmt::print("{}: {}\n", title, group.text);
  }
  for (const std::string& note : comparison.notes) fmt::print("note  {}\n", note);
}

int run(const Words& words) {
  std::string path, against;
  std::optional<double> tolerance;
  bool json = false;
  Arguments arguments("trine verify weights",
                      "Checks that weights are whole, fit their config.json and look trained, or compares two sets of them.");
  arguments.positional("DIR", path, "a model folder, checkpoint or run folder");
  arguments.option("--against", "DIR2", against, "another; its weights are compared tensor by tensor, and DIR is not checked by itself");
  arguments.option("--tolerance", "X", tolerance, "with --against: fail if a tensor's relative drift |a-b|/|a| is above X");
  arguments.flag("--json", json, "print the facts as JSON");
  if (!arguments.parse(words)) return 0;
  if (tolerance && against.empty()) throw UserError("--tolerance needs --against DIR2: it is about how far two sets of weights are apart");

  if (against.empty()) {
    const WeightReport report = check_weights(path);
    json ? fmt::print("{}\n", as_json(report).dump(2)) : print(report);
    std::string failed;
    for (const WeightCheck& check : report.checks) {
      if (!check.passed) failed += (failed.empty() ? "" : ", ") + check.name;
    }
    if (!report.passed()) throw CheckFailed("weights of {}: failed: {}", path, failed);
    return 0;
  }
  const WeightComparison comparison = compare_weights(*open_weights(path), *open_weights(against));
  json ? fmt::print("{}\n", as_json(comparison).dump(2)) : print(comparison);
  if (!comparison.same_tensors()) throw CheckFailed("{} and {} do not hold the same tensors", path, against);
  if (tolerance && !comparison.drifts.empty() && comparison.drifts.front().relative > *tolerance) {
    throw CheckFailed("{} and {} differ by {:.3g} in {}, more than {:.3g}", path, against, comparison.drifts.front().relative,
                      comparison.drifts.front().name, *tolerance);
  }
  return 0;
}

}  // namespace

const Command kVerifyWeightsCommand = {"weights", "a folder's weights are whole, fit its config.json and look trained; or two are alike",
                                       run};

}  // namespace trine
