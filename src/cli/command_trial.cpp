#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "config/load.h"
#include "verify/trial.h"

namespace trine {
namespace {

int run(const Words& words) {
  std::string recipe, folder;
  int64_t num_steps = 8;
  bool as_json = false;
  Words options;
  Arguments arguments("trine trial", "Proves what can be proved before a long run, in seven stages; exit 3 if one fails.");
  arguments.positional("RECIPE", recipe, "a TOML file with an [expect] section");
  arguments.option("--steps", "N", num_steps, "steps of the trial training");
  arguments.option("--folder", "DIR", folder, "where its runs and report go (default: RUN_FOLDER/trial); emptied first");
  arguments.flag("--json", as_json, "print the report as JSON");
  arguments.recipe_options(options);
  if (!arguments.parse(words)) return 0;

  const Config config = load_config(recipe, options);
  const std::filesystem::path where = folder.empty() ? std::filesystem::path(config.job.dump_folder) / "trial" : std::filesystem::path(folder);
  const auto stages = run_trial(config, {.folder = where, .num_steps = num_steps});
  if (as_json) {
    fmt::print("{}\n", trial_json(stages).dump(2));
  } else {
    fmt::print("{}report: {}\n", trial_text(stages), (where / "trial.json").string());
  }
  for (const TrialStage& stage : stages) {
    if (stage.status == TrialStage::Status::kFailed) return static_cast<int>(ExitCode::kCheckFailed);
  }
  return 0;
}

}  // namespace

const Command kTrialCommand = {"trial", "prove what can be proved before a long run", run};

}  // namespace trine
