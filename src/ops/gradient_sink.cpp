#include "ops/gradient_sink.h"

#include <torch/torch.h>

#include <tuple>
#include <utility>

namespace trine {

void GradientSink::finish_step() {
  if (!written_) gradient_.zero_();
  written_ = true;
}

bool GradientSink::begin_write() { return !std::exchange(written_, true); }

void GradientSink::add(const at::Tensor& gradient) {
  at::NoGradGuard no_grad;
  if (std::exchange(written_, true)) {
    gradient_.add_(gradient);
  } else {
    gradient_.copy_(gradient);
  }
}

void GradientSink::add_product(const at::Tensor& a_mk, const at::Tensor& b_kn) {
  at::NoGradGuard no_grad;
  if (a_mk.scalar_type() != gradient_.scalar_type()) return add(at::mm(a_mk, b_kn));
  if (std::exchange(written_, true)) {
    gradient_.addmm_(a_mk, b_kn);
  } else {
    at::mm_out(gradient_, a_mk, b_kn);
  }
}

void GradientSink::add_rows(const at::Tensor& ids_t, const at::Tensor& rows_th) {
  at::NoGradGuard no_grad;
  if (!std::exchange(written_, true)) gradient_.zero_();
  auto [unique_u, inverse_t, counts] = at::_unique2(ids_t, /*sorted=*/true, /*return_inverse=*/true);
  // Summing in fp32 first: a frequent token's rows would round away one by one in bf16.
  const at::ScalarType wide = rows_th.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  at::Tensor sums_uh = at::zeros({unique_u.size(0), rows_th.size(1)}, rows_th.options().dtype(wide));
  sums_uh.index_add_(0, inverse_t, rows_th.to(wide));
  gradient_.index_add_(0, unique_u, sums_uh.to(gradient_.scalar_type()));
}

}  // namespace trine
