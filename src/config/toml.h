// Recipes: TOML files whose tables are the sections of the option table.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "config/config.h"

namespace trine {

// Where each option that was given was given, by full name: "recipes/quickstart.toml:12" or "command line".
using Origins = std::map<std::string, std::string>;

// Applies a recipe to `config`. Throws UserError with file:line for malformed TOML, an unknown or misplaced key, a wrong type or an
// impossible value.
void apply_recipe(const std::filesystem::path& file, Config& config, Origins& origins);

}  // namespace trine
