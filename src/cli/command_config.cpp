#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "config/describe.h"
#include "config/load.h"

namespace trine {
namespace {

int run(const Words& words) {
  std::string recipe;
  Words options;
  bool as_json = false, table = false, list = false;
  Arguments arguments("trine config",
                      "Prints the whole configuration that a recipe and options make, as a recipe that reads back to the same.");
  arguments.optional_positional("RECIPE", recipe, "a TOML file; without it, the defaults");
  arguments.flag("--json", as_json, "print it as JSON");
  arguments.flag("--list", list, "print what every option means instead");
  arguments.flag("--markdown", table, "print the tables of docs/options.md instead");
  arguments.recipe_options(options);
  if (!arguments.parse(words)) return 0;
  if (as_json + table + list > 1) throw UserError("trine config: give one of --json, --list and --markdown.");

  if (list || table) {
    if (!recipe.empty() || !options.empty()) {
      throw UserError("trine config: --list and --markdown describe the options themselves and take no recipe.");
    }
    fmt::print("{}", list ? option_help() : option_markdown());
    return 0;
  }
  const Config config = load_config(recipe, options);
  if (as_json) {
    fmt::print("{}\n", resolved_json(config).dump(2));
  } else {
    fmt::print("{}", resolved_toml(config));
  }
  return 0;
}

}  // namespace

const Command kConfigCommand = {"config", "the whole configuration that a recipe and options make", run};

}  // namespace trine
