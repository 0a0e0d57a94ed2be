// Gradient clipping by the global norm: the arithmetic, apart from the tensors.
#pragma once

namespace trine {

// What gradients of norm `total_norm` are multiplied by so that their norm is at most `max_norm`: min(1, max_norm / (total_norm + 1e-6)),
// as torch.nn.utils.clip_grad_norm_ has it. `max_norm` 0: no clipping, 1. The norm must be finite.
double clip_factor(double total_norm, double max_norm);

}  // namespace trine
