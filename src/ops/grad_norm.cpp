#include "ops/grad_norm.h"

#include <torch/torch.h>

namespace trine {
namespace {

constexpr int64_t kPiece = int64_t{1} << 22;  // an fp32 copy of a bf16 piece is 16 MiB

}  // namespace

double sum_of_squares(const at::Tensor& x) {
  at::NoGradGuard no_grad;
  const at::ScalarType wide = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  double sum = 0;
  for (const at::Tensor& piece : x.view({-1}).split(kPiece)) {
    const double norm = at::linalg_vector_norm(piece, 2, c10::nullopt, /*keepdim=*/false, wide).item<double>();
    sum += norm * norm;
  }
  return sum;
}

bool all_finite(const at::Tensor& x) {
  at::NoGradGuard no_grad;
  for (const at::Tensor& piece : x.view({-1}).split(kPiece)) {
    if (!piece.isfinite().all().item<bool>()) return false;
  }
  return true;
}

}  // namespace trine
