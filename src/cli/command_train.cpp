#include "cli/arguments.h"
#include "cli/commands.h"
#include "config/load.h"
#include "train/trainer.h"

namespace trine {
namespace {

int run(const Words& words) {
  std::string recipe;
  Words options;
  Arguments arguments("trine train", "Trains a model as a recipe says: loads or initialises it, trains, validates, saves, exports.");
  arguments.positional("RECIPE", recipe, "a TOML file (see recipes/)");
  arguments.recipe_options(options);
  arguments.notes(
      "Options of the recipe can be given as --section.name VALUE; `trine config --list` explains them all.\n"
      "A run folder that holds a checkpoint is resumed. SIGTERM, SIGINT and SIGUSR1 save, then end (a second SIGINT ends at once).\n");
  if (!arguments.parse(words)) return 0;
  return train(load_config(recipe, options));
}

}  // namespace

const Command kTrainCommand = {"train", "train a model as a recipe says", run};

}  // namespace trine
