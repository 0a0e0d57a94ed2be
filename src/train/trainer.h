// A training run from configuration to export.
#pragma once

#include "config/config.h"

namespace trine {

// Trains as `config` says and returns the exit code: 0, or 128+n when signal n ended the run after saving. Throws UserError,
// CheckFailed (expectations) or RunStopped (non-finite values, disk full).
int train(const Config& config);

}  // namespace trine
