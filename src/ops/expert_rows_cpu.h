// The loops around the products of grouped_experts: rows to their experts, the activation's backward, and rows back to their tokens.
//
// Value: float or BFloat16Bits; arithmetic is fp32, and every instruction set gives the same bits. Rows are contiguous, `choices` names
// the choice t·k + j in each row, -1 in rows of padding (expert_order_cpu.h).
#pragma once

#include <cstdint>

#include "base/cpu.h"
#include "ops/bfloat16_bits.h"

namespace trine {

// Row r of `to` becomes token choices[r] / top_k of from_th, or zeros.
template <class Value>
void gather_rows_cpu(const Value* from_th, const int64_t* choices, int64_t top_k, int64_t rows, int64_t hidden, Value* to);

template <class Value>
struct ExpertActivation {
  const Value *gate_up, *dact;  // rows of [gate, up], 2·inner values; and of d loss / d act before weighting, inner values
  const int64_t* choices;
  const float* weights;  // by choice
  int64_t rows, inner;
};

// With act = silu(gate)·up and w the row's weight: weighted_act = w·act (it may be the memory of dact), dgate_up = [dgate, dup] of w·dact,
// and dweights[choice] = Σ dact·act. Rows of padding become zeros.
template <class Value>
void expert_activation_backward_cpu(const ExpertActivation<Value>& in, Value* weighted_act, Value* dgate_up, float* dweights,
                                    InstructionSet set);

// y of token t in begin .. end: Σ_j weights[t·k + j] · rows[row_of_choice[t·k + j]], in the order of j. Null weights stand for ones.
template <class Value>
void combine_rows_cpu(const Value* rows, const int64_t* row_of_choice, const float* weights, int64_t top_k, int64_t begin, int64_t end,
                      int64_t hidden, Value* y_th, InstructionSet set);

}  // namespace trine
