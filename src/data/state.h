// A place in the data as JSON, and the check that it is a place in this data.
#pragma once

#include "base/json.h"
#include "data/packing.h"

namespace trine {

// `identity`: what the place is bound to, a flat object whose keys are option names or say what they hold.
Json place_to_json(const PackState& place, int64_t num_rows, const Json& identity);

struct SavedPlace {
  PackState place;
  int64_t num_rows = 0;
};
// Throws UserError if `state` is malformed, of a newer version, or bound to another identity; every difference is named, old and new.
SavedPlace place_from_json(const Json& state, const Json& identity, size_t num_sources);

}  // namespace trine
