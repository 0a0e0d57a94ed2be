// AdamW (Loshchilov and Hutter 2019, as torch.optim.AdamW computes it) with gradient clipping folded in: one pass over memory.
//
// Registered: trine::adamw_(Tensor(a!) parameter, Tensor gradient, Tensor(b!) exp_avg, Tensor(c!) exp_avg_sq, int step, float lr,
//   float beta1, float beta2, float eps, float weight_decay, float clip_factor=1., int? rounding_seed=None, int first_index=0) -> ().
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "ops/implementation.h"

namespace trine {

struct AdamWStep {
  double lr = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0;
  double clip_factor = 1;  // multiplies the gradient
  int64_t step = 1;        // 1 for the first update
  // Given: a bfloat16 parameter is rounded up or down at random, so that updates too small for it add up in the mean. The noise is a
  // function of this seed (one per parameter), `step` and the element's index alone, whatever the threads, the device or the cut.
  std::optional<int64_t> rounding_seed{};
  int64_t first_index = 0;  // of the tensors' first element within the parameter, where they are a range of it
};

// Updates `parameter`, `exp_avg` and `exp_avg_sq` in place. All contiguous and of equal size, of any floating dtype; the moments share one.
// Arithmetic is fp32 (float64 for a float64 parameter), results are rounded once, to nearest if no seed is given.
// Throws c10::Error for tensors that do not belong together, a step below 1, and a rounding seed for a parameter that is not bfloat16.
void adamw_(at::Tensor& parameter, const at::Tensor& gradient, at::Tensor& exp_avg, at::Tensor& exp_avg_sq, const AdamWStep& step,
            Implementation implementation = Implementation::kFused);

}  // namespace trine
