#include "ops/grad_norm.h"

#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "ops/grad_norm_cpu.h"

namespace trine {
namespace {

constexpr int64_t kPiece = int64_t{1} << 20;

// Piece by piece, whatever thread takes which, so that the sum does not depend on the number of threads.
template <class Value>
double sum_by_pieces(const Value* values, int64_t count) {
  std::vector<double> sums(static_cast<size_t>((count + kPiece - 1) / kPiece));
  at::parallel_for(0, static_cast<int64_t>(sums.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i * kPiece;
      sums[static_cast<size_t>(i)] = sum_of_squares_cpu(values + first, std::min(kPiece, count - first), instruction_set());
    }
  });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

}  // namespace

double sum_of_squares(const at::Tensor& x) {
  at::NoGradGuard no_grad;
  TORCH_CHECK(x.is_contiguous(), "sum_of_squares: a contiguous tensor expected");
  if (x.is_cpu() && x.scalar_type() == at::kFloat) return sum_by_pieces(x.const_data_ptr<float>(), x.numel());
  if (x.is_cpu() && x.scalar_type() == at::kBFloat16) {
    return sum_by_pieces(reinterpret_cast<const BFloat16Bits*>(x.const_data_ptr<at::BFloat16>()), x.numel());
  }
  double sum = 0;
  for (const at::Tensor& piece : x.view({-1}).split(kPiece)) {
    const double norm = at::linalg_vector_norm(piece, 2, c10::nullopt, /*keepdim=*/false, at::kDouble).item<double>();
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
