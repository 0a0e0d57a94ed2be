#include "optim/adamw_optimizer.h"

#include "base/errors.h"
#include "base/random.h"
#include "ops/adamw.h"
#include "ops/grad_norm.h"

namespace trine {

bool matches_pattern(std::string_view name, std::string_view pattern) {
  size_t n = 0, p = 0, star = std::string_view::npos, after_star = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      after_star = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p, ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++after_star;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

AdamWOptimizer::AdamWOptimizer(Model& model, const OptimizerConfig& config, uint64_t seed) : model_(model), config_(config), seed_(seed) {
  const at::ScalarType dtype = config.state_dtype == "bfloat16" ? at::kBFloat16 : at::kFloat;
  for (auto& segment : model.segments()) {
    const int64_t size = segment->unit().flat_size();
    moments_.push_back({allocate_flat(size, dtype), allocate_flat(size, dtype)});
    for (const auto& parameter : segment->unit().parameters()) ++(decays(parameter->name) ? num_decayed_ : num_not_decayed_);
  }
  if (const auto master = model.segments().front()->unit().dtypes().master; config.stochastic_rounding && master != at::kBFloat16) {
    throw UserError("optimizer.stochastic_rounding: bfloat16 master weights expected (training.dtype), found {}", c10::toString(master));
  }
  for (const std::string& pattern : config.no_decay) {
    std::vector<std::string> names;
    bool matched = false;
    for (const Parameter* parameter : model.parameters()) {
      names.push_back(parameter->name);
      matched = matched || matches_pattern(parameter->name, pattern);
    }
    if (!matched) throw UserError("optimizer.no_decay: the pattern \"{}\" matches no parameter.{}", pattern, suggest(pattern, names, 4));
  }
}

bool AdamWOptimizer::decays(const std::string& name) const {
  for (const std::string& pattern : config_.no_decay) {
    if (matches_pattern(name, pattern)) return false;
  }
  return true;
}

double AdamWOptimizer::gradient_norm() {
  std::vector<at::Tensor> gradients;
  for (const Parameter* parameter : model_.parameters()) gradients.push_back(parameter->gradient);
  return grad_norm(gradients);
}

std::string AdamWOptimizer::first_non_finite_gradient() {
  for (const Parameter* parameter : model_.parameters()) {
    if (!all_finite(parameter->gradient)) return parameter->name;
  }
  return "";
}

void AdamWOptimizer::step(int64_t step, double lr, double clip_factor) {
  at::NoGradGuard no_grad;
  AdamWStep update{.lr = lr, .beta1 = config_.beta1, .beta2 = config_.beta2, .eps = config_.eps, .weight_decay = 0,
                   .clip_factor = clip_factor, .step = step};
  for (size_t i = 0; i < moments_.size(); ++i) {
    ParameterUnit& unit = model_.segments()[i]->unit();
    for (const auto& parameter : unit.parameters()) {
      update.weight_decay = decays(parameter->name) ? config_.weight_decay : 0;
      if (config_.stochastic_rounding) {
        update.rounding_seed = static_cast<int64_t>(CounterRandom(seed_, "stochastic rounding of " + parameter->name).bits(0));
      }
      at::Tensor master = parameter->master.view({-1});
      Moments state = moments(i, *parameter);
      adamw_(master, parameter->gradient.view({-1}), state.exp_avg, state.exp_avg_sq, update);
    }
    unit.master_changed();
  }
}

AdamWOptimizer::Moments AdamWOptimizer::moments(size_t unit, const Parameter& parameter) {
  const auto cut = [&](const at::Tensor& flat) { return flat.narrow(0, parameter.offset, parameter.numel); };
  return {cut(moments_[unit].exp_avg), cut(moments_[unit].exp_avg_sq)};
}

}  // namespace trine
