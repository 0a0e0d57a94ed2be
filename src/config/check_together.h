// What options must satisfy together; each alone is checked where it is read.
#pragma once

#include "config/config.h"
#include "config/toml.h"

namespace trine {

// Throws UserError, naming the options and where they were given, for combinations that cannot run. Warns of options that were given
// but have no effect, and of schedules that do not fit the run.
void check_together(const Config& config, const Origins& origins);

}  // namespace trine
