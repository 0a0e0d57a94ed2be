// Configurations and the option table as text.
#pragma once

#include <string>

#include "base/json.h"
#include "config/config.h"

namespace trine {

// Every option that is set, by section, as TOML; load_config() reads it back to the same configuration.
std::string resolved_toml(const Config& config);

// The same as {"section": {"name": value}}; unset options are null.
OrderedJson resolved_json(const Config& config);

// All options by section with default and what they take, for --help.
std::string option_help();

// The tables of docs/options.md.
std::string option_markdown();

}  // namespace trine
