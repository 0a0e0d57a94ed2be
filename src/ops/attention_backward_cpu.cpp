// The backward pass. One task is a kv head with all query heads that read it, so every sum has one order and one owner.
//
// With P = exp(s − lse), dP = dO Vᵀ, delta = Σ_d dO·O and dS = P ∘ (dP − delta):
//   dV = Pᵀ dO,  dK = dSᵀ Q / sqrt(D),  dQ = dS K / sqrt(D).
// Scores are formed transposed, Sᵀ = K Qᵀ and dPᵀ = V dOᵀ, so that Pᵀ and dSᵀ come out as rows of keys, which is how the products for
// dV and dK want them, and so that lse and delta lie along a row. dQ is summed transposed, dQᵀ = Kᵀ dSᵀ, and turned at the end.
#include <cmath>
#include <limits>
#include <numbers>

#include "ops/attention_pack.h"

namespace trine {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int64_t kQueries = kRun * kBlock;  // queries whose scores are formed at once

template <class Value>
struct BackwardTask {
  const AttentionInputs<Value>& in;
  const AttentionGradients<Value>& gradients;
  PackedSizes sizes;

  struct Scratch {
    // Of the kv head. Every packed array is [blocks][block_units].
    Unit *k_rows, *k_turned, *v_rows;  // [64][depth], [width][pairs], [64][depth]
    float *dk, *dv;                    // [blocks][64][width]
    // Of a query head.
    Unit *q_turned, *q_pairs, *dout_turned, *dout_pairs;  // [depth][64], [pairs][width] and the same
    float *dq_turned, *lse, *delta;                       // [blocks][width][64]; lse in powers of two, one for each query
    // Of a row of b.
    int32_t *first;                // the first visible key of each query; behind the last query none is visible
    int32_t *least, *most;         // the same of a block of queries
    // Of one product.
    float *scores, *dprobabilities;                   // [64][kQueries]
    Unit *probabilities, *dscores, *dscores_pairs;    // [64][kQueries], [64][kQueries], [pairs][kQueries]
    Unit* rows;                                       // a block on its way into another layout
    float* turned;                                    // [64][width]
    Scratch(Carver& memory, const PackedSizes& sizes) {
      const int64_t units = sizes.blocks * sizes.block_units, queries = sizes.blocks * kBlock, values = queries * sizes.width;
      for (Unit** part : {&k_rows, &k_turned, &v_rows, &q_turned, &q_pairs, &dout_turned, &dout_pairs}) *part = memory.take<Unit>(units);
      for (float** part : {&dk, &dv, &dq_turned}) *part = memory.take<float>(values);
      for (float** part : {&lse, &delta}) *part = memory.take<float>(queries);
      first = memory.take<int32_t>(queries);
      least = memory.take<int32_t>(sizes.blocks);
      most = memory.take<int32_t>(sizes.blocks);
      for (float** part : {&scores, &dprobabilities}) *part = memory.take<float>(kBlock * kQueries);
      for (Unit** part : {&probabilities, &dscores, &dscores_pairs}) *part = memory.take<Unit>(kRun * kBlock * sizes.pairs);
      rows = memory.take<Unit>(sizes.block_units);
      turned = memory.take<float>(kBlock * sizes.width);
    }
  };
  int64_t num_tasks() const { return in.shape.batch * in.shape.kv_heads; }
  int64_t scratch_bytes() const {
    Carver nothing(nullptr);
    Scratch(nothing, sizes);
    return nothing.taken();
  }

  template <class Machine>
  TRINE_INLINE void run(int64_t task, void* memory) const {
    const AttentionShape shape = in.shape;
    Carver carver(memory);
    const Scratch s(carver, sizes);
    const int64_t b = task / shape.kv_heads, kv_head = task % shape.kv_heads, group = shape.heads / shape.kv_heads;
    const int64_t values = sizes.blocks * kBlock * sizes.width;
    find_visible(b, s);
    pack_keys<Machine>(b, kv_head, s);
    std::fill(s.dk, s.dk + values, 0.0f);
    std::fill(s.dv, s.dv + values, 0.0f);
    for (int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
      pack_queries<Machine>(b, h, s);
      std::fill(s.dq_turned, s.dq_turned + values, 0.0f);
      for (int64_t key_block = 0; key_block < sizes.blocks; ++key_block) {
        const auto sees = [&](int64_t block) { return s.least[block] < (key_block + 1) * kBlock; };
        for (int64_t block = key_block; block < sizes.blocks;) {
          int64_t count = 0;
          while (count < kRun && block + count < sizes.blocks && sees(block + count)) ++count;
          if (count) add_products<Machine>(key_block, block, count, s);
          block += std::max<int64_t>(count, 1);
        }
      }
      store_query_gradients(b, h, s);
    }
    store_key_gradients(b, kv_head, s);
  }

  TRINE_INLINE int64_t tokens_in(int64_t block) const { return std::min(kBlock, in.shape.length - block * kBlock); }
  TRINE_INLINE float scale() const { return 1 / std::sqrt(static_cast<float>(in.shape.head_dim)); }

  TRINE_INLINE void find_visible(int64_t b, const Scratch& s) const {
    constexpr int32_t kNone = std::numeric_limits<int32_t>::max();
    for (int64_t block = 0; block < sizes.blocks; ++block) {
      s.least[block] = kNone;
      s.most[block] = 0;
      for (int64_t i = block * kBlock; i < (block + 1) * kBlock; ++i) {
        int64_t first = kNone;
        if (i < in.shape.length) first = in.first_visible ? in.first_visible[b * in.shape.length + i] : 0;
        s.first[i] = static_cast<int32_t>(std::clamp<int64_t>(first, 0, kNone));
        s.least[block] = std::min(s.least[block], s.first[i]);
        s.most[block] = std::max(s.most[block], s.first[i]);
      }
    }
  }

  template <class Machine>
  TRINE_INLINE void pack_keys(int64_t b, int64_t kv_head, const Scratch& s) const {
    for (int64_t block = 0; block < sizes.blocks; ++block) {
      const int64_t begin = block * kBlock, offset = block * sizes.block_units;
      pack_rows<Machine>(in.k.at(b, kv_head, begin), in.k.token_stride, tokens_in(block), in.shape.head_dim, sizes, s.k_rows + offset);
      pack_rows<Machine>(in.v.at(b, kv_head, begin), in.v.token_stride, tokens_in(block), in.shape.head_dim, sizes, s.v_rows + offset);
      interleave_rows<Machine>(s.k_rows + offset, sizes.depth, kBlock, sizes.width, s.rows, sizes.width);
      transpose(s.rows, sizes.width, sizes.pairs, sizes.width, s.k_turned + offset, sizes.pairs);
    }
  }

  template <class Machine>
  TRINE_INLINE void pack_queries(int64_t b, int64_t h, const Scratch& s) const {
    const HeadsView<const Value>&q = in.q, &dout = gradients.dout, &out = gradients.out;
    for (int64_t block = 0; block < sizes.blocks; ++block) {
      const int64_t begin = block * kBlock, offset = block * sizes.block_units, num_queries = tokens_in(block);
      pack_rows<Machine>(q.at(b, h, begin), q.token_stride, num_queries, in.shape.head_dim, sizes, s.rows);
      transpose(s.rows, sizes.depth, kBlock, sizes.depth, s.q_turned + offset, kBlock);
      interleave_rows<Machine>(s.rows, sizes.depth, kBlock, sizes.width, s.q_pairs + offset, sizes.width);
      pack_rows<Machine>(dout.at(b, h, begin), dout.token_stride, num_queries, in.shape.head_dim, sizes, s.rows);
      transpose(s.rows, sizes.depth, kBlock, sizes.depth, s.dout_turned + offset, kBlock);
      interleave_rows<Machine>(s.rows, sizes.depth, kBlock, sizes.width, s.dout_pairs + offset, sizes.width);
      const float* lse = gradients.lse + (b * in.shape.heads + h) * in.shape.length + begin;
      for (int64_t i = 0; i < kBlock; ++i) {
        const bool sees_something = i < num_queries && lse[i] != -kInfinity;
        s.lse[begin + i] = sees_something ? lse[i] * std::numbers::log2e_v<float> : kInfinity;  // 2^(s − ∞) = 0
        s.delta[begin + i] = i < num_queries ? dot(dout.at(b, h, begin + i), out.at(b, h, begin + i), in.shape.head_dim) : 0;
      }
    }
  }

  TRINE_INLINE static float dot(const Value* x, const Value* y, int64_t count) {
    float lanes[kLanes] = {};
    const int64_t whole = count / kLanes * kLanes;
    for (int64_t i = 0; i < whole; i += kLanes) {
      for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += load(x[i + lane]) * load(y[i + lane]);
    }
    for (int64_t i = whole; i < count; ++i) lanes[i - whole] += load(x[i]) * load(y[i]);
    float sum = 0;
    for (float lane : lanes) sum += lane;
    return sum;
  }

  // What `count` blocks of queries from `block` on and one block of keys add to dV, dK and dQ.
  template <class Machine>
  TRINE_INLINE void add_products(int64_t key_block, int64_t block, int64_t count, const Scratch& s) const {
    constexpr int64_t kPer = Machine::kValuesPerUnit;
    const int64_t queries = count * kBlock, query = block * kBlock, row_units = kQueries / kPer;
    const int64_t num_keys = round_up(tokens_in(key_block), kPer), key_offset = key_block * sizes.block_units;
    const int64_t query_offset = block * sizes.block_units;
    multiply<Machine>({s.k_rows + key_offset, sizes.depth}, {s.q_turned + query_offset, kBlock, sizes.block_units},
                      {s.scores, kQueries, kPanel}, num_keys, queries, sizes.depth, /*add=*/false);
    multiply<Machine>({s.v_rows + key_offset, sizes.depth}, {s.dout_turned + query_offset, kBlock, sizes.block_units},
                      {s.dprobabilities, kQueries, kPanel}, num_keys, queries, sizes.depth, /*add=*/false);

    bool masked = block == key_block;
    for (int64_t i = block; i < block + count; ++i) masked |= s.most[i] > key_block * kBlock;
    if (masked) {
      score_gradients<Machine, true>(key_block, query, num_keys, queries, s);
    } else {
      score_gradients<Machine, false>(key_block, query, num_keys, queries, s);
    }
    const Unit* dscores_pairs = s.dscores;
    if constexpr (kPer > 1) {
      interleave_rows<Machine>(s.dscores, row_units, num_keys, queries, s.dscores_pairs, kQueries);
      dscores_pairs = s.dscores_pairs;
    }

    const int64_t width = sizes.width, sums = key_block * kBlock * width;
    multiply<Machine>({s.probabilities, row_units}, {s.dout_pairs + query_offset, width, kPanel}, {s.dv + sums, width, kPanel}, num_keys,
                      width, queries / kPer, /*add=*/true);
    multiply<Machine>({s.dscores, row_units}, {s.q_pairs + query_offset, width, kPanel}, {s.dk + sums, width, kPanel}, num_keys, width,
                      queries / kPer, /*add=*/true);
    multiply<Machine>({s.k_turned + key_offset, sizes.pairs}, {dscores_pairs, kQueries, kPanel},
                      {s.dq_turned + query * width, kBlock, kBlock * width}, width, queries, num_keys / kPer, /*add=*/true);
  }

  template <class Machine, bool kMasked>
  TRINE_INLINE void score_gradients(int64_t key_block, int64_t query, int64_t num_keys, int64_t queries, const Scratch& s) const {
    const float power_scale = scale() * std::numbers::log2e_v<float>;
    constexpr IntLanes kCounting = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    for (int64_t r = 0; r < num_keys; ++r) {
      const auto key = static_cast<int32_t>(key_block * kBlock + r);
      const float *scores = s.scores + r * kQueries, *dprobabilities = s.dprobabilities + r * kQueries;
      const int64_t units = r * kQueries / Machine::kValuesPerUnit;
      Unit *probabilities = s.probabilities + units, *dscores = s.dscores + units;
      for (int64_t c = 0; c < queries; c += kLanes) {
        Lanes p = exp2_lanes(load_lanes(scores + c) * power_scale - load_lanes(s.lse + query + c));
        if constexpr (kMasked) {
          IntLanes first;
          std::memcpy(&first, s.first + query + c, sizeof(first));
          const IntLanes position = kCounting + static_cast<int32_t>(query + c);
          p = first <= key && position >= key ? p : Lanes{};
        }
        store_operands<Machine>(probabilities, c, p);
        store_operands<Machine>(dscores, c, p * (load_lanes(dprobabilities + c) - load_lanes(s.delta + query + c)));
      }
    }
  }

  TRINE_INLINE void store_query_gradients(int64_t b, int64_t h, const Scratch& s) const {
    for (int64_t block = 0; block < sizes.blocks; ++block) {
      const float* from = s.dq_turned + block * kBlock * sizes.width;
      transpose(reinterpret_cast<const Unit*>(from), kBlock, sizes.width, kBlock, reinterpret_cast<Unit*>(s.turned), sizes.width);
      for (int64_t i = 0; i < tokens_in(block); ++i) {
        store_scaled(gradients.dq.at(b, h, block * kBlock + i), s.turned + i * sizes.width, in.shape.head_dim, scale());
      }
    }
  }

  TRINE_INLINE void store_key_gradients(int64_t b, int64_t kv_head, const Scratch& s) const {
    for (int64_t i = 0; i < in.shape.length; ++i) {
      store_scaled(gradients.dk.at(b, kv_head, i), s.dk + i * sizes.width, in.shape.head_dim, scale());
      store_scaled(gradients.dv.at(b, kv_head, i), s.dv + i * sizes.width, in.shape.head_dim, 1);
    }
  }
};

}  // namespace

template <class Value>
void attention_backward_cpu(const AttentionInputs<Value>& in, const AttentionGradients<Value>& gradients, const TaskRunner& run,
                            InstructionSet set) {
  const BackwardTask<Value> task{in, gradients, PackedSizes(in.shape, values_per_unit<Value>(set))};
  run(task.num_tasks(), task.scratch_bytes(), [&](int64_t index, void* scratch) { run_on<Value>(set, task, index, scratch); });
}

template void attention_backward_cpu<float>(const AttentionInputs<float>&, const AttentionGradients<float>&, const TaskRunner&,
                                            InstructionSet);
template void attention_backward_cpu<BFloat16Bits>(const AttentionInputs<BFloat16Bits>&, const AttentionGradients<BFloat16Bits>&,
                                                   const TaskRunner&, InstructionSet);

}  // namespace trine
