// The size that a name states, such as 4B in "qwen3_4b_native", and whether a model has it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trine {

struct NamedSizes {
  int64_t parameters = 0, layers = 0, experts = 0;
};

// The part of `name` that states what the model does not have; empty if the name states nothing, or what fits. Stated are numbers of
// parameters, as words like 4b, 135M, 0.6B and 0_6b between letters of other words ("a3b" states none), which fit within 20%; and the
// layers and experts that a model was reduced to, as 4L or 4L64E, beside which the size before it is the unreduced model's.
std::string size_that_does_not_fit(std::string_view name, const NamedSizes& sizes);

}  // namespace trine
