// The experts of a mixture: each token through the gated feed-forwards that it was routed to, their outputs weighted and summed.
//
//   y_t = Σ_j weights[t, j] · down[e] (silu(gate[e] x_t) · (up[e] x_t)),  e = experts[t, j]
//
// Shape letters: T tokens, k choices of a token, E experts, H hidden, I intermediate size of one expert, R rows of choices sorted by
// expert. Registered:
//   trine::grouped_experts(Tensor x_th, Tensor gate_up_eih, Tensor down_ehi, Tensor experts_tk, Tensor weights_tk) -> Tensor, with
//     autograd
//   trine::grouped_experts_forward(same) -> (Tensor y, Tensor kept), kept [R, 2I]: gate and up by row, in an order that is the
//     implementation's own; R depends on sizes only, and rows that stand for no choice mean nothing
//   trine::grouped_experts_backward(Tensor dy, same, Tensor kept) -> (Tensor dx, Tensor dgate_up, Tensor ddown, Tensor dweights)
//   trine::grouped_experts_backward_into(Tensor dy, same, Tensor kept, Tensor(a!) gate_up_gradient, bool add_to_gate_up,
//     Tensor(b!) down_gradient, bool add_to_down) -> (Tensor dx, Tensor dweights): the weights' gradients stored in given memory, or
//     added to it
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/gradient_sink.h"
#include "ops/implementation.h"

namespace trine {

// x_th, gate_up_eih [E, 2I, H] (gate half first), down_ehi [E, H, I]: one floating dtype; experts_tk: int64, weights_tk: any floating
// dtype, used in fp32. Returns [T, H] of x's dtype, rounded once from the fp32 sum over j. Nothing is dropped, T may be zero,
// and an expert without tokens gets a gradient of exactly zero (case F3).
// With sinks (both or none) the gradients of the stacks go there without a temporary of their size.
// The reference is a plain loop over experts whose gradients are autograd's. The fused one gives the same bits for every number of
// threads. Throws c10::Error for other shapes or dtypes and for an expert that there is not.
at::Tensor grouped_experts(const at::Tensor& x_th, const at::Tensor& gate_up_eih, const at::Tensor& down_ehi, const at::Tensor& experts_tk,
                           const at::Tensor& weights_tk, GradientSink* gate_up_sink = nullptr, GradientSink* down_sink = nullptr,
                           Implementation implementation = Implementation::kReference);

}  // namespace trine
