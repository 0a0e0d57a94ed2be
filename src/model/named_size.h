// The size that a name states, such as 4B in "qwen3_4b_native", and whether a model has it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trine {

// The part of `name` that states a number of parameters which `parameters` is not near (more than 20% away); empty if the name states
// none, or one that fits. Sizes are words like 4b, 135M, 0.6B and 0_6b, between letters of other words: "a3b" states none.
std::string size_that_does_not_fit(std::string_view name, int64_t parameters);

}  // namespace trine
