// What the tests of ops share: gradients by finite differences, sinks, and comparisons that scale with the tensor.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>

#include "ops/gradient_sink.h"
#include "ops/implementation.h"

namespace trine {

inline constexpr Implementation kBothImplementations[] = {Implementation::kReference, Implementation::kFused};

inline at::Tensor random_tensor(at::IntArrayRef shape, uint64_t seed, at::ScalarType dtype = at::kDouble) {
  auto generator = at::detail::createCPUGenerator(seed);
  return at::randn(shape, generator, at::TensorOptions(at::kDouble)).to(dtype);
}

// ‖a − b‖ / ‖b‖ in float64; ‖a‖ where b is zero.
inline double difference(const at::Tensor& a, const at::Tensor& b) {
  const double norm = b.to(at::kDouble).norm().item<double>();
  return (a.to(at::kDouble) - b.to(at::kDouble)).norm().item<double>() / (norm > 0 ? norm : 1);
}

// d f / d x by central differences, in float64. f may read x, which is changed in place and put back.
inline at::Tensor numeric_gradient(const std::function<double()>& f, at::Tensor x) {
  at::NoGradGuard no_grad;
  constexpr double kStep = 1e-6;
  at::Tensor gradient = at::empty_like(x, at::MemoryFormat::Contiguous);
  at::Tensor flat = x.view({-1}), result = gradient.view({-1});
  for (int64_t i = 0; i < flat.numel(); ++i) {
    const double value = flat[i].item<double>();
    flat[i] = value + kStep;
    const double above = f();
    flat[i] = value - kStep;
    const double below = f();
    flat[i] = value;
    result[i] = (above - below) / (2 * kStep);
  }
  return gradient;
}

// A sink of the weight's shape, holding garbage as reused memory does.
inline GradientSink dirty_sink(const at::Tensor& weight, at::ScalarType dtype) {
  return GradientSink(at::full(weight.sizes(), std::numeric_limits<double>::quiet_NaN(), at::TensorOptions(dtype)));
}
inline GradientSink dirty_sink(const at::Tensor& weight) { return dirty_sink(weight, weight.scalar_type()); }

inline at::Tensor leaf(const at::Tensor& x) { return x.detach().clone().requires_grad_(true); }

}  // namespace trine
