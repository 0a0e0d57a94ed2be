// Finding the option that a recipe or a command line names, and saying what was probably meant when there is none.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "config/option.h"

namespace trine {

// The option section.name. Throws UserError opening with `where`: a known option of another section is named, else the nearest one.
const Option& require_option(std::string_view section, std::string_view name, std::string_view where);

// A section that no option and no feature to come has. Throws UserError opening with `where` unless it is known.
void require_section(std::string_view section, std::string_view where);

// A feature that this version lacks, whose options are known by name.
struct LaterFeature {
  std::string pattern;                  // "compile.*", or one option
  std::string what;                     // "compile models"
  std::vector<std::string> off_values;  // as written in TOML; these ask for nothing and are let through
};

// The feature that an option without a place in the table belongs to, or nullptr.
const LaterFeature* later_feature(std::string_view section, std::string_view name);

// True if section.name belongs to a later feature and `value` (as text) turns it off, so that it can be passed over. Throws UserError if
// it asks for the feature. False if it belongs to none.
bool asks_nothing_of_later_feature(std::string_view section, std::string_view name, std::string_view value, std::string_view where);

}  // namespace trine
