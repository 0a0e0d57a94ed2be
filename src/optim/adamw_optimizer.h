// AdamW over a model's units: its groups, its moments, and the one pass per parameter that clips, decays and updates.
#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

#include "config/config.h"
#include "model/segments.h"

namespace trine {

// True if `name` matches the pattern; `*` stands for any characters, dots included.
bool matches_pattern(std::string_view name, std::string_view pattern);

class AdamWOptimizer {
 public:
  // Allocates zero moments in optimizer.state_dtype beside each unit's master buffer. `seed` is that of stochastic rounding. Throws
  // UserError if a no_decay pattern matches no parameter, and for stochastic rounding of masters that are not bfloat16.
  AdamWOptimizer(Model& model, const OptimizerConfig& config, uint64_t seed = 0);

  // The Euclidean norm of all gradients, accumulated in double.
  double gradient_norm();
  // The first parameter (in tree order) with a non-finite gradient, or empty. Reads every gradient; for messages only.
  std::string first_non_finite_gradient();
  // Update number `step` (1-based; it sets the bias correction). Gradients are multiplied by `clip_factor`.
  void step(int64_t step, double lr, double clip_factor);

  struct Moments {
    at::Tensor exp_avg, exp_avg_sq;  // flat, laid out like the unit's master buffer
  };
  // Views of one parameter's moments, for checkpoints.
  Moments moments(size_t unit, const Parameter& parameter);
  int64_t num_decayed() const { return num_decayed_; }  // parameters with weight decay
  int64_t num_not_decayed() const { return num_not_decayed_; }

 private:
  bool decays(const std::string& name) const;

  Model& model_;
  OptimizerConfig config_;
  uint64_t seed_;
  std::vector<Moments> moments_;  // beside the model's segments
  int64_t num_decayed_ = 0, num_not_decayed_ = 0;
};

}  // namespace trine
