// The overrides that exist. A row says what a node may look like for the op to take it; binding ops to modules is in modules.cpp and the
// blocks'.
#include "model/overrides.h"

namespace trine {

const std::vector<Override>& override_registry() {
  using Kind = ModuleKind;
  const std::set<std::string> op = {"op"};
  const std::set<std::string> rotary = {"head_dim", "max_position_embeddings", "theta", "type", "factor", "original_max_position_embeddings",
                                        "beta_fast", "beta_slow", "truncate", "attention_factor", "mscale", "mscale_all_dim",
                                        "low_freq_factor", "high_freq_factor"};  // all are in the tables that the op is given
  const std::map<std::string, OptionValue> silu = {{"hidden_act", std::string("silu")}};
  static const std::vector<Override> registry = {
      {"qk_norm_rope", Kind::kRotary, "normalise each head of q and k and rotate it, in one pass", "trine::qk_norm_rope",
       "(Tensor x, Tensor weight, Tensor cos, Tensor sin, Tensor? positions, float eps) -> Tensor", rotary, {}, {"q_norm", "k_norm"}, op},
      {"rope", Kind::kRotary, "rotate q and k", "trine::rope",
       "(Tensor x, Tensor cos, Tensor sin, Tensor? positions, str layout) -> Tensor", rotary, {}, {}, op},
      {"rms_norm", Kind::kRmsNorm, "root-mean-square normalisation; after attention with the residual sum in the same pass", "trine::rms_norm",
       "(Tensor x, Tensor weight, float eps) -> Tensor", {"size", "eps"}, {}, {}, op},
      {"swiglu", Kind::kActivation, "silu(gate) * up", "trine::swiglu", "(Tensor gate, Tensor up) -> Tensor", {}, silu, {}, op},
      {"sdpa", Kind::kInnerAttention, "causal attention inside documents, by blocks", "trine::attention",
       "(Tensor q, Tensor k, Tensor v, Tensor? first_visible) -> Tensor", {"num_heads", "num_key_value_heads", "head_dim"}, {}, {}, op},
      {"router", Kind::kRouter, "softmax over all experts and the k largest", "trine::router",
       "(Tensor logits, int top_k, bool norm_topk_prob, Tensor? bias, bool force_balance) -> (Tensor, Tensor, Tensor)",
       {"in_features", "out_features", "num_experts", "top_k", "norm_topk_prob"}, {}, {}, op},
      {"experts", Kind::kExperts, "tokens sorted by expert, one product for each", "trine::grouped_experts",
       "(Tensor x, Tensor gate_up, Tensor down, Tensor experts, Tensor weights) -> Tensor", {"num_experts", "hidden_size", "intermediate_size"},
       silu, {}, op},
      {"cross_entropy", Kind::kLmHead, "the head's product and the loss by chunks of tokens", "trine::linear_cross_entropy",
       "(Tensor x, Tensor weight, Tensor labels, int ignore_index, str reduction) -> Tensor", {"in_features", "out_features", "tied"}, {}, {}, op},
  };
  return registry;
}

const std::vector<std::string>& fused_overrides() {
  static const std::vector<std::string> list = {"qk_norm_rope", "rope", "rms_norm", "swiglu", "sdpa", "router", "experts", "cross_entropy"};
  return list;
}

}  // namespace trine
