#include "ops/adamw.h"

#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <cmath>

#include "ops/adamw_cpu.h"

namespace trine {
namespace {

// Calls `action` with a typed pointer to a float32 or bfloat16 tensor's data.
template <class Action>
void with_pointer(const at::Tensor& tensor, const Action& action) {
  if (tensor.scalar_type() == at::kFloat) {
    action(tensor.data_ptr<float>());
  } else {
    TORCH_CHECK(tensor.scalar_type() == at::kBFloat16, "adamw_: float32 or bfloat16 expected, found ", tensor.scalar_type());
    action(reinterpret_cast<BFloat16Bits*>(tensor.data_ptr<at::BFloat16>()));
  }
}

}  // namespace

void adamw_(at::Tensor& parameter, const at::Tensor& gradient, at::Tensor& exp_avg, at::Tensor& exp_avg_sq, const AdamWStep& step) {
  const int64_t count = parameter.numel();
  TORCH_CHECK(gradient.numel() == count && exp_avg.numel() == count && exp_avg_sq.numel() == count, "adamw_: sizes differ");
  TORCH_CHECK(exp_avg.scalar_type() == exp_avg_sq.scalar_type(), "adamw_: the moments' dtypes differ");
  TORCH_CHECK(parameter.is_contiguous() && gradient.is_contiguous() && exp_avg.is_contiguous() && exp_avg_sq.is_contiguous(),
              "adamw_: contiguous tensors expected");
  const double bias1 = 1 - std::pow(step.beta1, static_cast<double>(step.step));
  const double bias2 = 1 - std::pow(step.beta2, static_cast<double>(step.step));
  const AdamWFactors factors{
      .clip = static_cast<float>(step.clip_factor),
      .decay = static_cast<float>(1 - step.lr * step.weight_decay),
      .one_minus_beta1 = static_cast<float>(1 - step.beta1),
      .beta2 = static_cast<float>(step.beta2),
      .one_minus_beta2 = static_cast<float>(1 - step.beta2),
      .step_size = static_cast<float>(step.lr / bias1),
      .inverse_sqrt_bias2 = static_cast<float>(1 / std::sqrt(bias2)),
      .eps = static_cast<float>(step.eps),
  };
  constexpr int64_t kGrain = 1 << 15;
  with_pointer(parameter, [&](auto* p) {
    with_pointer(gradient, [&](auto* g) {
      with_pointer(exp_avg, [&](auto* m) {
        auto* v = static_cast<decltype(m)>(exp_avg_sq.data_ptr());
        at::parallel_for(0, count, kGrain, [&](int64_t begin, int64_t end) {
          using Gradient = std::remove_pointer_t<decltype(g)>;
          adamw_cpu(p + begin, static_cast<const Gradient*>(g) + begin, m + begin, v + begin, end - begin, factors,
                    instruction_set());
        });
      });
    });
  });
}

}  // namespace trine
