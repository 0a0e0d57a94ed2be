// `trine verify`: one command for each thing that can be checked. Exit 3 if a check does not hold.
#include "cli/command_verify.h"

#include "cli/commands.h"

namespace trine {
namespace {

const Command kChecks[] = {
    kVerifyLossesCommand,
    kVerifyWeightsCommand,
};

int run(const Words& words) { return dispatch("trine verify", kChecks, words); }

}  // namespace

const Command kVerifyCommand = {"verify", "check runs against each other and against what they should be", run};

}  // namespace trine
