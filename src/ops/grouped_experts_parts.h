// What grouped_experts.cpp chooses from: the plain loop, and the forward and backward of its registered ops in tensor operations (any
// device, any dtype) and on the CPU (float32 and bfloat16).
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

namespace trine {

struct ExpertInputs {
  at::Tensor x_th, gate_up_eih, down_ehi, experts_tk, weights_tk;
};

// Where the gradients of the two stacks go; `add`: to what is there, otherwise over it.
struct ExpertGradients {
  at::Tensor gate_up_eih, down_ehi;
  bool add_to_gate_up = false, add_to_down = false;
};

// Throws c10::Error, saying what was found and what is expected. Looks at shapes and dtypes only.
void check_expert_inputs(const ExpertInputs& in);

// The sum with gradients by autograd.
at::Tensor plain_expert_loop(const ExpertInputs& in);

// forward: (y_th, kept); backward: (dx_th, dweights_tk of weights_tk's dtype).
using ExpertPair = std::tuple<at::Tensor, at::Tensor>;
ExpertPair experts_forward_reference(const ExpertInputs& in);
ExpertPair experts_backward_reference(const at::Tensor& dy_th, const ExpertInputs& in, const at::Tensor& kept, const ExpertGradients& to);
ExpertPair experts_forward_on_cpu(const ExpertInputs& in);
ExpertPair experts_backward_on_cpu(const at::Tensor& dy_th, const ExpertInputs& in, const at::Tensor& kept, const ExpertGradients& to);

}  // namespace trine
