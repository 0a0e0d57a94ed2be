#include "base/errors.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "config/load.h"
#include "train/trainer.h"

namespace trine {
namespace {

int run(const Words& words) {
  std::string recipe;
  int64_t num_ranks = 1;
  Words options;
  Arguments arguments("trine train", "Trains a model as a recipe says: loads or initialises it, trains, validates, saves, exports.");
  arguments.positional("RECIPE", recipe, "a TOML file (see recipes/)");
  arguments.option("--ranks", "N", num_ranks, "ranks to start on this machine");
  arguments.recipe_options(options);
  arguments.notes(
      "Options of the recipe can be given as --section.name VALUE; `trine config --list` explains them all.\n"
      "A run folder that holds a checkpoint is resumed. SIGTERM, SIGINT and SIGUSR1 save, then end (a second SIGINT ends at once).\n");
  if (!arguments.parse(words)) return 0;
  if (num_ranks != 1) throw UserError("--ranks {}: this version of Trine cannot train on several ranks yet. Leave it out, or give 1.", num_ranks);
  return train(load_config(recipe, options));
}

}  // namespace

const Command kTrainCommand = {"train", "train a model as a recipe says", run};

}  // namespace trine
