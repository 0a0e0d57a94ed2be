// AdamW (Loshchilov and Hutter 2019, as torch.optim.AdamW computes it) with gradient clipping folded in: one pass over memory.
#pragma once

#include <ATen/core/Tensor.h>

namespace trine {

struct AdamWStep {
  double lr = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0;
  double clip_factor = 1;  // multiplies the gradient
  int64_t step = 1;        // 1 for the first update
};

// Updates `parameter`, `exp_avg` and `exp_avg_sq` in place. All contiguous, of equal size, each float32 or bfloat16; the moments share
// one dtype. Arithmetic is fp32, results are rounded to nearest.
void adamw_(at::Tensor& parameter, const at::Tensor& gradient, at::Tensor& exp_avg, at::Tensor& exp_avg_sq, const AdamWStep& step);

}  // namespace trine
