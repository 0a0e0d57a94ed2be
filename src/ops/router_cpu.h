// The CPU kernels behind router: one token at a time, in fp32. Every instruction set gives the same bits.
#pragma once

#include <cstdint>

#include "base/cpu.h"
#include "ops/bfloat16_bits.h"

namespace trine {

// Added to the sum that weights are divided by: it changes no sum that rounding could show, and keeps chosen probabilities that are all
// zero (which a bias or a forced choice can bring about) from giving NaN.
constexpr float kLeastWeightSum = 1e-20f;

struct RouterRows {
  int64_t begin, end;  // the tokens to do
  int64_t num_experts, top_k;
  bool norm_topk_prob;
};

// `bias` [E] may be null. With `force_balance` token t's choices are t·k .. t·k + k − 1 modulo E, whatever the logits.
template <class Value>
void router_rows_cpu(const RouterRows& rows, const Value* logits_te, const float* bias, bool force_balance, float* weights_tk,
                     int64_t* experts_tk, float* probs_te, InstructionSet set);

// dlogits = p·(dp − Σ dp·p), where dp is dprobs plus what reached the chosen probabilities through the weights.
void router_backward_rows_cpu(const RouterRows& rows, const float* dweights_tk, const float* dprobs_te, const float* probs_te,
                              const int64_t* experts_tk, float* dlogits_te, InstructionSet set);

}  // namespace trine
