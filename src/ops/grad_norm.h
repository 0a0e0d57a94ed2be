// The norm of a gradient, without a wide copy of it.
#pragma once

#include <ATen/core/Tensor.h>

namespace trine {

// Σ x² of a contiguous tensor of any floating dtype, squares in fp32 (fp64 for float64), pieces added in double.
double sum_of_squares(const at::Tensor& x);

// True if every value is finite.
bool all_finite(const at::Tensor& x);

}  // namespace trine
