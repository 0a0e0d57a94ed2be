// Initial values that do not depend on layout: each is a function of the seed, the parameter's name and the element's index.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string_view>

#include "model/spec.h"

namespace trine {

// Fills `flat` (one dimension, any floating dtype) with elements first_index.. of the parameter. Drawn in fp32, then rounded: drawing
// in bf16 would put outliers at the tails.
void initialize(at::Tensor flat, int64_t first_index, const InitSpec& init, std::string_view name, uint64_t seed);

}  // namespace trine
