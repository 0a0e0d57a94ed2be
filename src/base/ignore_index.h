// The label that takes no part in the loss, as in PyTorch and Transformers.
#pragma once

#include <cstdint>

namespace trine {

inline constexpr int32_t kIgnoreIndex = -100;

}  // namespace trine
