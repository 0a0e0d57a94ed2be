// The forward pass: a block of queries walks over the keys that it can see, with a running maximum and sum for each query.
#include <cmath>
#include <limits>
#include <numbers>

#include "ops/attention_pack.h"

namespace trine {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int64_t kKeys = kRun * kBlock;  // keys whose scores are formed at once

// Keys and values of every kv head, in the layouts that products want.
template <class Value>
struct Packed {
  const AttentionInputs<Value>& in;
  PackedSizes sizes;
  Unit *keys, *values;  // [batch · kv_heads][blocks], keys as [depth][64], values as [pairs][width]
  Packed(const AttentionInputs<Value>& in, InstructionSet set, Carver& memory) : in(in), sizes(in.shape, values_per_unit<Value>(set)) {
    const int64_t units = in.shape.batch * in.shape.kv_heads * sizes.blocks * sizes.block_units;
    keys = memory.take<Unit>(units);
    values = memory.take<Unit>(units);
  }
};

template <class Value>
struct PackTask {
  const Packed<Value>& packed;
  int64_t num_tasks() const { return packed.in.shape.batch * packed.in.shape.kv_heads * packed.sizes.blocks; }
  int64_t scratch_bytes() const { return packed.sizes.block_units * static_cast<int64_t>(sizeof(Unit)); }

  template <class Machine>
  TRINE_INLINE void run(int64_t task, void* scratch) const {
    const AttentionShape& shape = packed.in.shape;
    const PackedSizes sizes = packed.sizes;
    const int64_t head = task / sizes.blocks, b = head / shape.kv_heads, h = head % shape.kv_heads;
    const int64_t begin = task % sizes.blocks * kBlock, num_tokens = std::min(kBlock, shape.length - begin);
    auto* rows = static_cast<Unit*>(scratch);
    const HeadsView<const Value>&k = packed.in.k, &v = packed.in.v;
    pack_rows<Machine>(k.at(b, h, begin), k.token_stride, num_tokens, shape.head_dim, sizes, rows);
    transpose(rows, sizes.depth, kBlock, sizes.depth, packed.keys + task * sizes.block_units, kBlock);
    pack_rows<Machine>(v.at(b, h, begin), v.token_stride, num_tokens, shape.head_dim, sizes, rows);
    interleave_rows<Machine>(rows, sizes.depth, kBlock, sizes.width, packed.values + task * sizes.block_units, sizes.width);
  }
};

template <class Value>
struct QueryTask {
  const Packed<Value>& packed;
  const HeadsView<Value>& out;
  float* lse;

  struct Scratch {
    Unit *q, *probabilities;
    float *scores, *sums;
    Scratch(Carver& memory, const PackedSizes& sizes)
        : q(memory.take<Unit>(sizes.block_units)),
          probabilities(memory.take<Unit>(kBlock * kRun * sizes.pairs)),
          scores(memory.take<float>(kBlock * kKeys)),
          sums(memory.take<float>(kBlock * sizes.width)) {}
  };
  int64_t num_tasks() const { return packed.in.shape.batch * packed.in.shape.heads * packed.sizes.blocks; }
  int64_t scratch_bytes() const {
    Carver nothing(nullptr);
    Scratch(nothing, packed.sizes);
    return nothing.taken();
  }

  template <class Machine>
  TRINE_INLINE void run(int64_t task, void* memory) const {
    const AttentionShape shape = packed.in.shape;
    const PackedSizes sizes = packed.sizes;
    Carver carver(memory);
    const Scratch scratch(carver, sizes);
    // Blocks of a head from the last, which costs most, so that threads end together.
    const int64_t head = task / sizes.blocks, block = sizes.blocks - 1 - task % sizes.blocks;
    const int64_t b = head / shape.heads, h = head % shape.heads, begin = block * kBlock;
    const int64_t num_queries = std::min(kBlock, shape.length - begin);
    const int64_t kv_head = b * shape.kv_heads + h / (shape.heads / shape.kv_heads);
    const Unit* keys = packed.keys + kv_head * sizes.blocks * sizes.block_units;
    const Unit* values = packed.values + kv_head * sizes.blocks * sizes.block_units;
    // Scores are kept in powers of two: exp(x) = 2^(x · log2 e).
    const float scale = std::numbers::log2e_v<float> / std::sqrt(static_cast<float>(shape.head_dim));

    pack_rows<Machine>(packed.in.q.at(b, h, begin), packed.in.q.token_stride, num_queries, shape.head_dim, sizes, scratch.q);
    int64_t first[kBlock], least = begin;
    float largest[kBlock], total[kBlock];
    for (int64_t i = 0; i < num_queries; ++i) {
      first[i] = packed.in.first_visible ? std::max<int64_t>(0, packed.in.first_visible[b * shape.length + begin + i]) : 0;
      least = std::min(least, first[i]);
      largest[i] = -kInfinity;
      total[i] = 0;
    }
    bool add = false;
    for (int64_t key_block = least / kBlock; key_block <= block; key_block += kRun) {
      const int64_t key = key_block * kBlock, count = std::min(kRun, block + 1 - key_block) * kBlock;
      multiply<Machine>({scratch.q, sizes.depth}, {keys + key_block * sizes.block_units, kBlock, sizes.block_units},
                        {scratch.scores, kKeys, kBlock}, num_queries, count, sizes.depth, /*add=*/false);
      for (int64_t i = 0; i < num_queries; ++i) {
        float* row = scratch.scores + i * kKeys;
        const int64_t visible = std::clamp<int64_t>(first[i] - key, 0, count), end = std::clamp<int64_t>(begin + i + 1 - key, 0, count);
        std::fill(row, row + visible, -kInfinity);
        std::fill(row + end, row + count, -kInfinity);
        const float factor = exponentials<Machine>(row, count, scale, largest[i], total[i],
                                                   scratch.probabilities + i * kRun * sizes.pairs);
        if (add && factor != 1) scale_row(scratch.sums + i * sizes.width, sizes.width, factor);
      }
      multiply<Machine>({scratch.probabilities, kRun * sizes.pairs}, {values + key_block * sizes.block_units, sizes.width, kPanel},
                        {scratch.sums, sizes.width, kPanel}, num_queries, sizes.width, count / Machine::kValuesPerUnit, add);
      add = true;
    }
    for (int64_t i = 0; i < num_queries; ++i) {
      const bool empty = total[i] == 0;
      store_scaled(out.at(b, h, begin + i), scratch.sums + i * sizes.width, shape.head_dim, empty ? 0 : 1 / total[i]);
      lse[head * shape.length + begin + i] = empty ? -kInfinity : (largest[i] + std::log2(total[i])) * std::numbers::ln2_v<float>;
    }
  }

  // row becomes 2^(row · scale − largest), as operands; returns the factor that earlier sums are to be multiplied by.
  template <class Machine>
  TRINE_INLINE static float exponentials(const float* row, int64_t count, float scale, float& largest, float& total, Unit* result) {
    Lanes most = load_lanes(row);
    for (int64_t c = kLanes; c < count; c += kLanes) {
      const Lanes x = load_lanes(row + c);
      most = x > most ? x : most;
    }
    float found = largest;
    for (int64_t lane = 0; lane < kLanes; ++lane) found = std::max(found, most[lane] * scale);
    const float base = found == -kInfinity ? 0 : found;  // nothing visible so far: −inf − 0, not −inf + inf
    Lanes sums = {};
    for (int64_t c = 0; c < count; c += kLanes) {
      const Lanes e = exp2_lanes(load_lanes(row + c) * scale - base);
      sums += e;
      store_operands<Machine>(result, c, e);
    }
    const float factor = std::exp2(largest - base);
    float sum = 0;
    for (int64_t lane = 0; lane < kLanes; ++lane) sum += sums[lane];
    largest = found;
    total = total * factor + sum;
    return factor;
  }

  TRINE_INLINE static void scale_row(float* row, int64_t count, float factor) {
    for (int64_t c = 0; c < count; c += kLanes) store_lanes(row + c, load_lanes(row + c) * factor);
  }
};

template <class Value, class Task>
void run_all(const Task& task, const TaskRunner& run, InstructionSet set) {
  run(task.num_tasks(), task.scratch_bytes(), [&](int64_t index, void* scratch) { run_on<Value>(set, task, index, scratch); });
}

}  // namespace

template <class Value>
int64_t attention_workspace_bytes(const AttentionShape& shape, InstructionSet set) {
  Carver nothing(nullptr);
  Packed<Value>({.shape = shape}, set, nothing);
  return nothing.taken();
}

template <class Value>
void attention_forward_cpu(const AttentionInputs<Value>& in, const HeadsView<Value>& out, float* lse, void* workspace,
                           const TaskRunner& run, InstructionSet set) {
  Carver memory(workspace);
  const Packed<Value> packed(in, set, memory);
  run_all<Value>(PackTask<Value>{packed}, run, set);
  run_all<Value>(QueryTask<Value>{packed, out, lse}, run, set);
}

#define TRINE_ATTENTION_FORWARD(Value)                                                                                              \
  template int64_t attention_workspace_bytes<Value>(const AttentionShape&, InstructionSet);                                         \
  template void attention_forward_cpu<Value>(const AttentionInputs<Value>&, const HeadsView<Value>&, float*, void*, const TaskRunner&, \
                                             InstructionSet);
TRINE_ATTENTION_FORWARD(float)
TRINE_ATTENTION_FORWARD(BFloat16Bits)

}  // namespace trine
