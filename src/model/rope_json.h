// The rotary embedding's part of a config.json, which has had three spellings.
#pragma once

#include <cstdint>

#include "model/json_fields.h"
#include "model/model_args.h"

namespace trine {

// Reads rope_theta at the top level or inside rope_parameters (or its older name rope_scaling), with `type` for `rope_type`. The same
// thing said twice in different words is an error, and so is a block with a key that no rope type has, or no rope_theta anywhere.
RopeArgs read_rope(JsonFields& fields, int64_t max_position_embeddings);

// The block `rope_parameters` for these arguments.
nlohmann::ordered_json rope_parameters_json(const RopeArgs& rope);

}  // namespace trine
