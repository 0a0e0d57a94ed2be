#include "optim/clipping.h"

#include <algorithm>

namespace trine {

double clip_factor(double total_norm, double max_norm) {
  if (max_norm <= 0) return 1;
  constexpr double kEpsilon = 1e-6;
  return std::min(1.0, max_norm / (total_norm + kEpsilon));
}

}  // namespace trine
