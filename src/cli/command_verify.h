// The checks of `trine verify`, each defined in command_verify_NAME.cpp.
#pragma once

#include "cli/command.h"

namespace trine {

extern const Command kVerifyLossesCommand;
extern const Command kVerifyWeightsCommand;

}  // namespace trine
