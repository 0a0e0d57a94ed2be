#include "ops/adamw.h"

#include <torch/library.h>
#include <torch/torch.h>

#include <cmath>

#include "ops/adamw_cpu.h"
#include "ops/in_place.h"
#include "ops/tensor_values.h"

namespace trine {
namespace {

void check(const at::Tensor& parameter, const at::Tensor& gradient, const at::Tensor& exp_avg, const at::Tensor& exp_avg_sq,
           const AdamWStep& step) {
  const auto size = parameter.sym_numel();
  TORCH_CHECK(gradient.sym_numel() == size && exp_avg.sym_numel() == size && exp_avg_sq.sym_numel() == size,
              "adamw_: tensors of one size expected, found ", size, " elements of the parameter, ", gradient.sym_numel(),
              " of the gradient, ", exp_avg.sym_numel(), " and ", exp_avg_sq.sym_numel(), " of the moments");
  for (const at::Tensor* tensor : {&parameter, &gradient, &exp_avg, &exp_avg_sq}) {
    TORCH_CHECK(tensor->is_floating_point() && tensor->is_contiguous(), "adamw_: contiguous floating-point tensors expected, found ",
                tensor->scalar_type(), " of strides ", tensor->sym_strides());
  }
  TORCH_CHECK(exp_avg.scalar_type() == exp_avg_sq.scalar_type(), "adamw_: moments of one dtype expected, found ", exp_avg.scalar_type(),
              " and ", exp_avg_sq.scalar_type());
  TORCH_CHECK(step.step >= 1, "adamw_: the first step is 1, found ", step.step);
  TORCH_CHECK(step.first_index >= 0, "adamw_: a first index of 0 or more expected, found ", step.first_index);
  TORCH_CHECK(!step.rounding_seed || parameter.scalar_type() == at::kBFloat16,
              "adamw_: rounding at random is for bfloat16 parameters, found ", parameter.scalar_type());
}

template <class Real>
AdamWFactors<Real> factors_of(const AdamWStep& s) {
  const double bias1 = 1 - std::pow(s.beta1, static_cast<double>(s.step)), bias2 = 1 - std::pow(s.beta2, static_cast<double>(s.step));
  return {.clip = static_cast<Real>(s.clip_factor),
          .decay = static_cast<Real>(1 - s.lr * s.weight_decay),
          .one_minus_beta1 = static_cast<Real>(1 - s.beta1),
          .beta2 = static_cast<Real>(s.beta2),
          .one_minus_beta2 = static_cast<Real>(1 - s.beta2),
          .step_size = static_cast<Real>(s.lr / bias1),
          .inverse_sqrt_bias2 = static_cast<Real>(1 / std::sqrt(bias2)),
          .eps = static_cast<Real>(s.eps)};
}

// Philox4x32-10 and the choice of RoundingNoise in tensor operations: the noise of elements first .. first + count - 1, as int32.
at::Tensor noise_reference(uint64_t seed, uint64_t step, int64_t first, int64_t count, at::Device device) {
  constexpr int64_t kLow = 0xFFFFFFFF;
  const auto high_of = [](const at::Tensor& x) { return x.bitwise_right_shift(32).bitwise_and_(kLow); };  // the shift keeps the sign
  const at::Tensor index = at::arange(first, first + count, at::TensorOptions(at::kLong).device(device));
  const at::Tensor block = index.bitwise_right_shift(9).mul_(64).add_(index.bitwise_and(63));
  const at::Tensor half = index.bitwise_and(511).bitwise_right_shift_(6);
  std::array<at::Tensor, 4> counter = {block.bitwise_and(kLow), high_of(block), at::full_like(block, static_cast<int64_t>(step) & kLow),
                                       at::full_like(block, static_cast<int64_t>(step >> 32))};
  auto key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round, key0 += 0x9E3779B9u, key1 += 0xBB67AE85u) {
    const at::Tensor product0 = counter[0] * int64_t{0xD2511F53}, product1 = counter[2] * int64_t{0xCD9E8D57};  // modulo 2^64
    counter = {high_of(product1).bitwise_xor_(counter[1]).bitwise_xor_(int64_t{key0}), product1.bitwise_and(kLow),
               high_of(product0).bitwise_xor_(counter[3]).bitwise_xor_(int64_t{key1}), product0.bitwise_and(kLow)};
  }
  const at::Tensor word = at::stack(at::TensorList(counter)).gather(0, half.bitwise_right_shift(1).unsqueeze(0)).squeeze(0);
  return word.bitwise_right_shift_(half.bitwise_and(1).mul_(16)).bitwise_and_(0xFFFF).to(at::kInt);
}

// A piece at a time, since the noise takes many bytes a value on its way.
void round_with_noise(const at::Tensor& to, const at::Tensor& values, const AdamWStep& step) {
  constexpr int64_t kPiece = int64_t{1} << 20;
  const at::Tensor flat = values.view({-1}), flat_to = to.view({-1});
  for (int64_t begin = 0; begin < flat.numel(); begin += kPiece) {
    const at::Tensor piece = flat.slice(0, begin, begin + kPiece);
    const at::Tensor noise = noise_reference(static_cast<uint64_t>(*step.rounding_seed), static_cast<uint64_t>(step.step),
                                             step.first_index + begin, piece.numel(), piece.device());
    const at::Tensor rounded = piece.view(at::kInt).add(noise).bitwise_and_(-0x10000).view(at::kFloat);
    flat_to.slice(0, begin, begin + kPiece).copy_(at::where(piece.isnan(), piece, rounded));
  }
}

void update_reference(const at::Tensor& parameter, const at::Tensor& gradient, const at::Tensor& exp_avg, const at::Tensor& exp_avg_sq,
                      const AdamWStep& step) {
  check(parameter, gradient, exp_avg, exp_avg_sq, step);
  const AdamWFactors<double> f = factors_of<double>(step);
  const at::ScalarType wide = wide_type(parameter);
  const auto widened = [&](const at::Tensor& x) { return x.to(wide).view(parameter.sizes()); };
  const at::Tensor g = widened(gradient) * f.clip, old_m = widened(exp_avg);
  const at::Tensor m = old_m + (g - old_m) * f.one_minus_beta1;
  const at::Tensor v = widened(exp_avg_sq) * f.beta2 + g * f.one_minus_beta2 * g;
  const at::Tensor p = widened(parameter) * f.decay - m / (v.sqrt() * f.inverse_sqrt_bias2 + f.eps) * f.step_size;
  exp_avg.copy_(m.view(exp_avg.sizes()));
  exp_avg_sq.copy_(v.view(exp_avg_sq.sizes()));
  if (step.rounding_seed) {
    round_with_noise(parameter, p, step);
  } else {
    parameter.copy_(p);
  }
}

void update_cpu(const at::Tensor& parameter, const at::Tensor& gradient, const at::Tensor& exp_avg, const at::Tensor& exp_avg_sq,
                const AdamWStep& step) {
  if (!has_kernel_type(parameter) || !has_kernel_type(gradient) || !has_kernel_type(exp_avg)) {
    return update_reference(parameter, gradient, exp_avg, exp_avg_sq, step);
  }
  check(parameter, gradient, exp_avg, exp_avg_sq, step);
  const AdamWFactors<float> factors = factors_of<float>(step);
  const auto seed = static_cast<uint64_t>(step.rounding_seed.value_or(0));
  const RoundingNoise noise{.key = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)},
                            .step = static_cast<uint64_t>(step.step),
                            .first_index = step.first_index};
  const auto update_with = [&](auto* p, const auto* g, auto* m, auto* v) {
    parallel_items(parameter.numel(), 1, [&](int64_t begin, int64_t end) {
      if constexpr (std::is_same_v<decltype(p), BFloat16Bits*>) {
        if (step.rounding_seed) {
          RoundingNoise noise_of_range = noise;
          noise_of_range.first_index += begin;
          return adamw_stochastic_cpu(p + begin, g + begin, m + begin, v + begin, end - begin, factors, noise_of_range, instruction_set());
        }
      }
      adamw_cpu(p + begin, g + begin, m + begin, v + begin, end - begin, factors, instruction_set());
    });
  };
  with_value_type(parameter, [&](auto p) {
    with_value_type(gradient, [&](auto g) {
      with_value_type(exp_avg, [&](auto m) {
        update_with(writable_values_of<decltype(p)>(parameter), values_of<decltype(g)>(gradient), writable_values_of<decltype(m)>(exp_avg),
                    writable_values_of<decltype(m)>(exp_avg_sq));
      });
    });
  });
}

// The registered op around one of the above.
template <auto kUpdate>
void registered(const at::Tensor& parameter, const at::Tensor& gradient, const at::Tensor& exp_avg, const at::Tensor& exp_avg_sq,
                int64_t step, double lr, double beta1, double beta2, double eps, double weight_decay, double clip_factor,
                std::optional<int64_t> rounding_seed, int64_t first_index) {
  kUpdate(parameter, gradient, exp_avg, exp_avg_sq,
          {.lr = lr, .beta1 = beta1, .beta2 = beta2, .eps = eps, .weight_decay = weight_decay, .clip_factor = clip_factor, .step = step,
           .rounding_seed = rounding_seed, .first_index = first_index});
}

using Signature = decltype(registered<check>);

}  // namespace

void adamw_(at::Tensor& parameter, const at::Tensor& gradient, at::Tensor& exp_avg, at::Tensor& exp_avg_sq, const AdamWStep& s,
            Implementation implementation) {
  at::NoGradGuard no_grad;
  if (implementation == Implementation::kReference) return update_reference(parameter, gradient, exp_avg, exp_avg_sq, s);
  static const auto op = find_op<Signature>("trine::adamw_");
  op.call(parameter, gradient, exp_avg, exp_avg_sq, s.step, s.lr, s.beta1, s.beta2, s.eps, s.weight_decay, s.clip_factor, s.rounding_seed,
          s.first_index);
}

TORCH_LIBRARY_FRAGMENT(trine, m) {
  m.def(
      "adamw_(Tensor(a!) parameter, Tensor gradient, Tensor(b!) exp_avg, Tensor(c!) exp_avg_sq, int step, float lr, float beta1,"
      " float beta2, float eps, float weight_decay, float clip_factor=1., int? rounding_seed=None, int first_index=0) -> ()");
}
TORCH_LIBRARY_IMPL(trine, Autograd, m) { m.impl("adamw_", without_gradients()); }
TORCH_LIBRARY_IMPL(trine, ADInplaceOrView, m) { m.impl("adamw_", counted_writes()); }
TORCH_LIBRARY_IMPL(trine, CompositeExplicitAutograd, m) { m.impl("adamw_", registered<update_reference>); }
TORCH_LIBRARY_IMPL(trine, CPU, m) { m.impl("adamw_", registered<update_cpu>); }
TORCH_LIBRARY_IMPL(trine, Meta, m) { m.impl("adamw_", registered<check>); }

}  // namespace trine
