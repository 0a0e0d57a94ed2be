// The modules of a decoder, built from nodes of the spec tree. Shape letters: B rows, S positions, H hidden (H also counts query heads
// where a head dimension D stands beside it), K key-value heads, D head_dim.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "model/batch_inputs.h"
#include "model/parameter_unit.h"
#include "model/spec.h"

namespace trine {

// Finds the weight of a full name among the units.
using WeightLookup = std::function<Weight&(const std::string& name)>;

class Linear {
 public:
  Linear(const ModuleSpec& spec, const WeightLookup& lookup) : weight_(lookup(spec.fqn + ".weight")) {}
  at::Tensor forward(const at::Tensor& x) const;

 private:
  Weight& weight_;
};

class RmsNorm {
 public:
  RmsNorm(const ModuleSpec& spec, const WeightLookup& lookup)
      : weight_(lookup(spec.fqn + ".weight")), eps_(spec.double_option("eps")) {}
  at::Tensor forward(const at::Tensor& x) const;

 private:
  Weight& weight_;
  double eps_;
};

// q/k norm (where the model has it), rotary, causal attention inside documents, output projection.
class Attention {
 public:
  Attention(const ModuleSpec& spec, int64_t layer, std::shared_ptr<RopeTable> table, const WeightLookup& lookup);
  at::Tensor forward(const at::Tensor& x_bsh, const BatchInputs& batch) const;

 private:
  at::Tensor attend(const at::Tensor& q_bhsd, const at::Tensor& k_bksd, const at::Tensor& v_bksd, const BatchInputs& batch) const;

  int64_t layer_, num_heads_, num_key_value_heads_, head_dim_;
  Linear q_proj_, k_proj_, v_proj_, o_proj_;
  std::optional<RmsNorm> q_norm_, k_norm_;
  std::shared_ptr<RopeTable> rotary_;
};

class Mlp {
 public:
  Mlp(const ModuleSpec& spec, const WeightLookup& lookup);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  Linear gate_proj_, up_proj_, down_proj_;
};

// h + attention(norm(h)), then h + mlp(norm(h)).
class DecoderLayer {
 public:
  DecoderLayer(const ModuleSpec& spec, int64_t layer, std::shared_ptr<RopeTable> table, const WeightLookup& lookup);
  at::Tensor forward(const at::Tensor& h_bsh, const BatchInputs& batch) const;

 private:
  RmsNorm input_layernorm_;
  Attention self_attn_;
  RmsNorm post_attention_layernorm_;
  Mlp mlp_;
};

}  // namespace trine
