// The configuration of a run: defaults, then the recipe, then the command line, then what follows from those, checked as a whole.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "config/config.h"

namespace trine {

// Reads `recipe` (empty: no file) and applies `options`, words as on the command line ("--training.steps", "20"). What is left open
// is filled in: job.dump_folder, the datasets' names, checkpoint.initial_load_path. Relative paths, in a recipe as on the command
// line, are relative to the working directory. Throws UserError naming file:line or "command line"; warns of options that have no effect.
Config load_config(const std::filesystem::path& recipe, std::span<const std::string> options);

}  // namespace trine
