// Options of the recipe on the command line: --section.name value, --section.name=value, and --section.name or --section.no-name for
// booleans. `-` and `_` are the same. Lists are comma separated, or the option is repeated.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "config/config.h"
#include "config/toml.h"

namespace trine {

// How many of `words` the option at their front takes: itself and, if it is a word of its own, its value. Throws UserError for an
// unknown option.
size_t num_option_words(std::span<const std::string> words);

// Applies options, which are all of `words`, to `config`. A list given here takes the place of the recipe's; the last of several single
// values counts. Throws UserError as apply_recipe() does, with "command line" for file:line.
void apply_command_line(std::span<const std::string> words, Config& config, Origins& origins);

}  // namespace trine
