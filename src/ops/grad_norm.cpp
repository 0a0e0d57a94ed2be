#include "ops/grad_norm.h"

#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "ops/grad_norm_cpu.h"
#include "ops/tensor_values.h"

namespace trine {
namespace {

constexpr int64_t kPiece = int64_t{1} << 20;

void check(at::TensorList gradients) {
  TORCH_CHECK(!gradients.empty(), "grad_norm: at least one tensor expected");
  for (const at::Tensor& gradient : gradients) {
    TORCH_CHECK(gradient.is_floating_point() && gradient.device() == gradients[0].device(),
                "grad_norm: floating-point tensors on one device expected, found ", gradient.scalar_type(), " on ", gradient.device(),
                " beside ", gradients[0].scalar_type(), " on ", gradients[0].device());
  }
}

// A piece at a time, since torch widens what it sums.
at::Tensor norm_reference(at::TensorList gradients) {
  check(gradients);
  std::vector<at::Tensor> norms;
  for (const at::Tensor& gradient : gradients) {
    for (const at::Tensor& piece : gradient.reshape({-1}).split(kPiece)) {
      norms.push_back(at::linalg_vector_norm(piece, 2, c10::nullopt, /*keepdim=*/false, at::kDouble));
    }
  }
  return at::linalg_vector_norm(at::stack(norms));
}

// Piece by piece, whatever thread takes which, so that the sum does not depend on the number of threads.
at::Tensor norm_cpu(at::TensorList gradients) {
  if (!std::ranges::all_of(gradients, has_kernel_type)) return norm_reference(gradients);
  check(gradients);
  struct Piece {
    const at::Tensor* tensor;
    int64_t begin, end;
  };
  std::vector<at::Tensor> contiguous;
  std::vector<Piece> pieces;
  contiguous.reserve(gradients.size());
  for (const at::Tensor& gradient : gradients) {
    const at::Tensor& values = contiguous.emplace_back(gradient.contiguous());
    for (int64_t begin = 0; begin < values.numel(); begin += kPiece) {
      pieces.push_back({&values, begin, std::min(begin + kPiece, values.numel())});
    }
  }
  std::vector<double> sums(pieces.size());
  at::parallel_for(0, static_cast<int64_t>(pieces.size()), 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const auto& [tensor, begin, end] = pieces[static_cast<size_t>(i)];
      with_value_type(*tensor, [&](auto value) {
        const auto* values = values_of<decltype(value)>(*tensor) + begin;
        sums[static_cast<size_t>(i)] = sum_of_squares_cpu(values, end - begin, instruction_set());
      });
    }
  });
  return at::scalar_tensor(std::sqrt(std::accumulate(sums.begin(), sums.end(), 0.0)), at::kDouble);
}

at::Tensor norm_meta(at::TensorList gradients) {
  check(gradients);
  return at::empty({}, gradients[0].options().dtype(at::kDouble));
}

}  // namespace

double grad_norm(at::TensorList gradients, Implementation implementation) {
  at::NoGradGuard no_grad;
  if (implementation == Implementation::kReference) return norm_reference(gradients).item<double>();
  static const auto op = find_op<at::Tensor(at::TensorList)>("trine::grad_norm");
  return op.call(gradients).item<double>();
}

bool all_finite(const at::Tensor& x) {
  at::NoGradGuard no_grad;
  for (const at::Tensor& piece : x.view({-1}).split(kPiece)) {
    if (!piece.isfinite().all().item<bool>()) return false;
  }
  return true;
}

TORCH_LIBRARY_FRAGMENT(trine, m) { m.def("grad_norm(Tensor[] gradients) -> Tensor"); }
TORCH_LIBRARY_IMPL(trine, Autograd, m) { m.impl("grad_norm", torch::autograd::autogradNotImplementedFallback()); }
TORCH_LIBRARY_IMPL(trine, CompositeExplicitAutograd, m) { m.impl("grad_norm", norm_reference); }
TORCH_LIBRARY_IMPL(trine, CPU, m) { m.impl("grad_norm", norm_cpu); }
TORCH_LIBRARY_IMPL(trine, Meta, m) { m.impl("grad_norm", norm_meta); }

}  // namespace trine
