// The options of [moe] against the model that they are to train.
#pragma once

#include "config/config.h"
#include "model/model_args.h"

namespace trine {

// Throws UserError if `options` ask something of experts that `args` does not have. Warns of a router that cannot learn from the loss
// (case F2), and of routing that ignores the router.
void check_moe_options(const MoeConfig& options, const ModelArgs& args);

}  // namespace trine
