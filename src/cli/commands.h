// The commands of `trine`, each defined in command_NAME.cpp. main.cpp's table gives their order.
#pragma once

#include "cli/command.h"

namespace trine {

extern const Command kConfigCommand;
extern const Command kDataCommand;
extern const Command kDoctorCommand;
extern const Command kEvalCommand;
extern const Command kExportCommand;
extern const Command kGenerateCommand;
extern const Command kInspectCommand;
extern const Command kTrainCommand;
extern const Command kTrialCommand;
extern const Command kReportCommand;
extern const Command kTokenizeCommand;
extern const Command kVerifyCommand;

}  // namespace trine
