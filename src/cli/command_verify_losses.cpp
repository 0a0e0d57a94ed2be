#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "cli/arguments.h"
#include "cli/command_verify.h"
#include "verify/losses.h"

namespace trine {
namespace {

nlohmann::ordered_json as_json(const LossComparison& comparison) {
  nlohmann::ordered_json json = {{"equal", comparison.equal()},
                                 {"steps", comparison.num_steps},
                                 {"validations", comparison.num_validations},
                                 {"different", comparison.num_different},
                                 {"largest_relative_loss_difference", comparison.largest_relative_loss_difference}};
  if (const auto& first = comparison.first) {
    json["first"] = {{"kind", first->kind}, {"step", first->step}, {"field", first->field}, {"a", first->a}, {"b", first->b}};
  }
  return json;
}

int run(const Words& words) {
  std::string run_a, run_b;
  bool json = false, common = false;
  Arguments arguments("trine verify losses", "Compares loss, gradient norm, learning rate and token counts of two runs, to the last bit.");
  arguments.positional("RUN_A", run_a, "a run folder or its metrics.jsonl");
  arguments.positional("RUN_B", run_b, "another");
  arguments.flag("--common", common, "leave out what lies past the last step of the shorter run");
  arguments.flag("--json", json, "print the facts as JSON");
  if (!arguments.parse(words)) return 0;

  const LossComparison comparison = compare_losses(run_a, run_b, common);
  if (json) fmt::print("{}\n", as_json(comparison).dump(2));
  if (!comparison.equal()) {
    throw CheckFailed("{} and {} differ in {} records ({} steps and {} validations are in both; relative difference of losses at most "
                      "{:.3g}). First: {}", run_a, run_b, comparison.num_different, comparison.num_steps, comparison.num_validations,
                      comparison.largest_relative_loss_difference, in_words(*comparison.first));
  }
  if (!json) fmt::print("equal: {} steps and {} validations, to the last bit\n", comparison.num_steps, comparison.num_validations);
  return 0;
}

}  // namespace

const Command kVerifyLossesCommand = {"losses", "two runs took the same course, to the last bit", run};

}  // namespace trine
