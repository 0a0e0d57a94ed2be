// Where the gradient of one parameter goes: a view into its unit's flat gradient buffer.
//
// Ops write products straight into it (store the first time in a step, add afterwards), so no weight-sized temporary is made and
// nothing is accumulated twice. An op that took a sink returns an undefined gradient for that weight to autograd.
#pragma once

#include <ATen/core/Tensor.h>

namespace trine {

class GradientSink {
 public:
  GradientSink() = default;
  explicit GradientSink(at::Tensor gradient) : gradient_(std::move(gradient)) {}

  // The next write stores instead of adding.
  void begin_step() { written_ = false; }
  // Zeroes the range if nothing wrote it in this step, so that no range keeps an old gradient.
  void finish_step();

  // For an op that writes the whole range itself: whether it is to store (true) or to add. Counts as a write.
  bool begin_write();

  void add(const at::Tensor& gradient);                               // same shape, any floating dtype
  void add_product(const at::Tensor& a_mk, const at::Tensor& b_kn);   // a @ b, both in the compute dtype
  void add_rows(const at::Tensor& ids_t, const at::Tensor& rows_th);  // rows summed by id in fp32, then added at those rows

  const at::Tensor& gradient() const { return gradient_; }

 private:
  at::Tensor gradient_;
  bool written_ = false;
};

}  // namespace trine
