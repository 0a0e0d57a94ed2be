// The table of all options, in the order in which they are shown.
#pragma once

#include <string_view>
#include <vector>

#include "config/option.h"

namespace trine {

const std::vector<OptionSection>& option_table();

// nullptr if there is none.
const OptionSection* find_section(std::string_view section);
const Option* find_option(std::string_view section, std::string_view name);

// A configuration in which every option has its default.
Config default_config();

}  // namespace trine
