// The norm of a gradient, without a wide copy of it.
#pragma once

#include <ATen/core/Tensor.h>

namespace trine {

// Σ x² of a contiguous tensor of any floating dtype. On the CPU squares of float32 and bfloat16 are summed in fp32 a few at a time and
// those sums in double: one running sum in fp32 over millions of values would be off by parts in ten thousand.
double sum_of_squares(const at::Tensor& x);

// True if every value is finite.
bool all_finite(const at::Tensor& x);

}  // namespace trine
