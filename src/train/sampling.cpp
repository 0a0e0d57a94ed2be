#include "train/sampling.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/errors.h"

namespace trine {

void SamplingOptions::check() const {
  if (!(temperature >= 0) || !std::isfinite(temperature)) throw UserError("temperature must be 0 (greedy) or more, and is {}", temperature);
  if (top_k < 0) throw UserError("top_k must be 0 (all tokens) or more, and is {}", top_k);
  if (!(top_p > 0 && top_p <= 1)) throw UserError("top_p must lie in (0, 1], and is {}", top_p);
}

int64_t choose_token(const at::Tensor& logits_v, const SamplingOptions& options, double uniform) {
  const at::Tensor wide = logits_v.to(at::kCPU, at::kDouble).contiguous();
  if (!wide.isfinite().all().item<bool>()) throw RunStopped("a logit is not finite; the model's weights or its dtype are at fault");
  const double* logits = wide.data_ptr<double>();
  const auto more_likely = [&](int64_t a, int64_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; };
  std::vector<int64_t> ids(static_cast<size_t>(wide.numel()));
  std::iota(ids.begin(), ids.end(), 0);
  if (options.temperature == 0) return *std::min_element(ids.begin(), ids.end(), more_likely);

  const size_t kept = options.top_k > 0 ? std::min(ids.size(), static_cast<size_t>(options.top_k)) : ids.size();
  std::partial_sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(kept), ids.end(), more_likely);
  std::vector<double> weights;
  for (size_t i = 0; i < kept; ++i) weights.push_back(std::exp((logits[ids[i]] - logits[ids[0]]) / options.temperature));
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  double mass = 0;
  size_t num_tokens = 0;
  while (num_tokens < kept && (num_tokens == 0 || mass < options.top_p * all)) mass += weights[num_tokens++];

  double left = uniform * mass;
  for (size_t i = 0; i < num_tokens; ++i) {
    left -= weights[i];
    if (left < 0) return ids[i];
  }
  return ids[num_tokens - 1];  // rounding in the sum
}

}  // namespace trine
