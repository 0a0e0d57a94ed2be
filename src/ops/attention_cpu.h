// Causal attention on a CPU without torch: blocks of scores that never leave the cache, forward and backward (the scheme of
// FlashAttention, arXiv 2205.14135 and 2307.08691).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/cpu.h"
#include "ops/bfloat16_bits.h"

namespace trine {

struct AttentionShape {
  int64_t batch, heads, kv_heads, length, head_dim;
};

// [batch, heads, length, head_dim] with head_dim contiguous and other strides as given, in values.
template <class Value>
struct HeadsView {
  Value* data;
  int64_t batch_stride, head_stride, token_stride;
  Value* at(int64_t b, int64_t h, int64_t s) const { return data + b * batch_stride + h * head_stride + s * token_stride; }
};

// Query i of row b sees the keys first_visible[b · length + i] to i; a null first_visible means from 0. One that lies behind i sees
// nothing. The keys and values of query head h are those of head h / (heads / kv_heads).
template <class Value>
struct AttentionInputs {
  AttentionShape shape;
  HeadsView<const Value> q, k, v;
  const int64_t* first_visible;
};

// Calls work(task, scratch) for every task from 0 to num_tasks, in any order, at most one call at a time with the same scratch: that many
// bytes, 64-byte aligned, holding anything. Results do not depend on the order.
using TaskRunner =
    std::function<void(int64_t num_tasks, int64_t scratch_bytes, const std::function<void(int64_t task, void* scratch)>& work)>;

// Value: float or BFloat16Bits. Sums, the softmax and lse are fp32.
// out = softmax(q kᵀ / sqrt(head_dim)) v, and lse [batch, heads, length] = log Σ exp of a query's visible scores; a query that sees
// nothing gets zeros and −infinity. `workspace`: attention_workspace_bytes, 64-byte aligned.
template <class Value>
int64_t attention_workspace_bytes(const AttentionShape& shape, InstructionSet set);
template <class Value>
void attention_forward_cpu(const AttentionInputs<Value>& in, const HeadsView<Value>& out, float* lse, void* workspace,
                           const TaskRunner& run, InstructionSet set);

template <class Value>
struct AttentionGradients {
  HeadsView<const Value> dout, out;
  const float* lse;
  HeadsView<Value> dq, dk, dv;
};

// Gradients from those of `out`. The probabilities are computed again from lse.
template <class Value>
void attention_backward_cpu(const AttentionInputs<Value>& in, const AttentionGradients<Value>& gradients, const TaskRunner& run,
                            InstructionSet set);

}  // namespace trine
