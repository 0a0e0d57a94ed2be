#include "ops/router_cpu.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "ops/vector_math.h"

namespace trine {
namespace {

constexpr float kLowest = std::numeric_limits<float>::lowest();

template <class Value>
TRINE_INLINE void softmax(const Value* logits, int64_t count, float* probs) {
  float largest = -std::numeric_limits<float>::infinity();
  for (int64_t e = 0; e < count; ++e) largest = std::max(largest, load(logits[e]));
  for (int64_t e = 0; e < count; ++e) probs[e] = exp_of_negative(load(logits[e]) - largest);
  double sum = 0;
  for (int64_t e = 0; e < count; ++e) sum += static_cast<double>(probs[e]);
  const float factor = static_cast<float>(1 / sum);
  for (int64_t e = 0; e < count; ++e) probs[e] *= factor;
}

// The k largest scores in descending order, of equal ones the lower index first. Scores are above −∞ and not NaN; they are spoilt.
TRINE_INLINE void choose(float* scores, int64_t count, int64_t top_k, int64_t* experts) {
  constexpr float kTaken = -std::numeric_limits<float>::infinity();
  for (int64_t j = 0; j < top_k; ++j) {
    float largest = kTaken;
    for (int64_t e = 0; e < count; ++e) {
      if (scores[e] > largest) {
        largest = scores[e];
        experts[j] = e;
      }
    }
    scores[experts[j]] = kTaken;
  }
}

template <class Value>
struct Forward {
  TRINE_INLINE static void run(RouterRows rows, const Value* logits_te, const float* bias, bool force_balance, float* weights_tk,
                               int64_t* experts_tk, float* probs_te, float* scores) {
    const int64_t count = rows.num_experts, top_k = rows.top_k;
    for (int64_t t = rows.begin; t < rows.end; ++t) {
      float *probs = probs_te + t * count, *weights = weights_tk + t * top_k;
      int64_t* experts = experts_tk + t * top_k;
      softmax(logits_te + t * count, count, probs);
      if (force_balance) {
        for (int64_t j = 0; j < top_k; ++j) experts[j] = (t * top_k + j) % count;
      } else {
        // The lowest finite score for NaN too, so that a token gone wrong still has k different experts; its weights show what it is.
        for (int64_t e = 0; e < count; ++e) scores[e] = std::max(kLowest, bias ? probs[e] + bias[e] : probs[e]);
        choose(scores, count, top_k, experts);
      }
      float sum = kLeastWeightSum;
      for (int64_t j = 0; j < top_k; ++j) sum += weights[j] = probs[experts[j]];
      if (!rows.norm_topk_prob) continue;
      for (int64_t j = 0; j < top_k; ++j) weights[j] /= sum;
    }
  }
};

struct Backward {
  TRINE_INLINE static void run(RouterRows rows, const float* dweights_tk, const float* dprobs_te, const float* probs_te,
                               const int64_t* experts_tk, float* dlogits_te) {
    const int64_t count = rows.num_experts, top_k = rows.top_k;
    for (int64_t t = rows.begin; t < rows.end; ++t) {
      const float *probs = probs_te + t * count, *dweights = dweights_tk + t * top_k;
      const int64_t* experts = experts_tk + t * top_k;
      float* dlogits = dlogits_te + t * count;
      std::copy_n(dprobs_te + t * count, count, dlogits);
      // With s = Σ p of the chosen, w = p / s: dp = (dw − Σ dw·w) / s.
      float sum = kLeastWeightSum, dot = 0;
      for (int64_t j = 0; j < top_k; ++j) sum += probs[experts[j]];
      for (int64_t j = 0; j < top_k; ++j) dot += dweights[j] * (probs[experts[j]] / sum);
      for (int64_t j = 0; j < top_k; ++j) dlogits[experts[j]] += rows.norm_topk_prob ? (dweights[j] - dot) / sum : dweights[j];
      double mean = 0;
      for (int64_t e = 0; e < count; ++e) mean += static_cast<double>(dlogits[e] * probs[e]);
      for (int64_t e = 0; e < count; ++e) dlogits[e] = probs[e] * (dlogits[e] - static_cast<float>(mean));
    }
  }
};

}  // namespace

template <class Value>
void router_rows_cpu(const RouterRows& rows, const Value* logits_te, const float* bias, bool force_balance, float* weights_tk,
                     int64_t* experts_tk, float* probs_te, InstructionSet set) {
  std::vector<float> scores(static_cast<size_t>(rows.num_experts));
  run_clone<Forward<Value>>(set, rows, logits_te, bias, force_balance, weights_tk, experts_tk, probs_te, scores.data());
}

template void router_rows_cpu<float>(const RouterRows&, const float*, const float*, bool, float*, int64_t*, float*, InstructionSet);
template void router_rows_cpu<BFloat16Bits>(const RouterRows&, const BFloat16Bits*, const float*, bool, float*, int64_t*, float*,
                                            InstructionSet);

void router_backward_rows_cpu(const RouterRows& rows, const float* dweights_tk, const float* dprobs_te, const float* probs_te,
                              const int64_t* experts_tk, float* dlogits_te, InstructionSet set) {
  run_clone<Backward>(set, rows, dweights_tk, dprobs_te, probs_te, experts_tk, dlogits_te);
}

}  // namespace trine
