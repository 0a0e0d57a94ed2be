// The tree of a decoder-only language model, dense or with experts, with the names of published Hugging Face files.
#include <fmt/format.h>

#include <cmath>

#include "model/model_args.h"

namespace trine {
namespace {

ModuleSpec linear(const std::string& fqn, int64_t in_features, int64_t out_features, double std) {
  return {.fqn = fqn,
          .kind = ModuleKind::kLinear,
          .options = {{"in_features", in_features}, {"out_features", out_features}},
          .parameters = {{"weight", {out_features, in_features}, {InitSpec::Kind::kNormal, std}}}};
}

ModuleSpec rms_norm(const std::string& fqn, int64_t size, double eps) {
  return {.fqn = fqn,
          .kind = ModuleKind::kRmsNorm,
          .options = {{"size", size}, {"eps", eps}},
          .parameters = {{"weight", {size}, {InitSpec::Kind::kOnes, 0}}}};
}

// Holds every setting of the rotary embedding, so that one layer's node can be replaced or changed alone.
ModuleSpec rotary(const std::string& fqn, const ModelArgs& args) {
  const RopeArgs& rope = args.rope;
  ModuleSpec node{.fqn = fqn, .kind = ModuleKind::kRotary};
  node.options = {{"head_dim", args.head_dim},
                  {"max_position_embeddings", args.max_position_embeddings},
                  {"theta", rope.theta},
                  {"type", rope.type}};
  if (rope.type != "default") node.options["factor"] = rope.factor;
  if (rope.type == "yarn" || rope.type == "llama3") {
    node.options["original_max_position_embeddings"] = rope.original_max_position_embeddings;
  }
  if (rope.type == "yarn") {
    node.options["beta_fast"] = rope.beta_fast;
    node.options["beta_slow"] = rope.beta_slow;
    node.options["truncate"] = rope.truncate;
    if (rope.attention_factor) node.options["attention_factor"] = *rope.attention_factor;
    if (rope.mscale) node.options["mscale"] = *rope.mscale;
    if (rope.mscale_all_dim) node.options["mscale_all_dim"] = *rope.mscale_all_dim;
  }
  if (rope.type == "llama3") {
    node.options["low_freq_factor"] = rope.low_freq_factor;
    node.options["high_freq_factor"] = rope.high_freq_factor;
  }
  return node;
}

// `std_out`: of the projections that write into the residual stream.
ModuleSpec attention(const std::string& fqn, const ModelArgs& args, double std, double std_out) {
  const int64_t q_size = args.num_attention_heads * args.head_dim;  // need not equal hidden_size
  const int64_t kv_size = args.num_key_value_heads * args.head_dim;
  ModuleSpec node{.fqn = fqn, .kind = ModuleKind::kAttention};
  node.options = {{"num_heads", args.num_attention_heads},
                  {"num_key_value_heads", args.num_key_value_heads},
                  {"head_dim", args.head_dim},
                  {"qk_norm", args.qk_norm}};
  node.children = {linear(fqn + ".q_proj", args.hidden_size, q_size, std), linear(fqn + ".k_proj", args.hidden_size, kv_size, std),
                   linear(fqn + ".v_proj", args.hidden_size, kv_size, std), linear(fqn + ".o_proj", q_size, args.hidden_size, std_out)};
  if (args.qk_norm) {
    node.children.push_back(rms_norm(fqn + ".q_norm", args.head_dim, args.rms_norm_eps));
    node.children.push_back(rms_norm(fqn + ".k_norm", args.head_dim, args.rms_norm_eps));
  }
  node.children.push_back(rotary(fqn + ".rotary_emb", args));
  ModuleSpec inner{.fqn = fqn + ".inner_attention", .kind = ModuleKind::kInnerAttention};
  inner.options = {{"num_heads", args.num_attention_heads}, {"num_key_value_heads", args.num_key_value_heads}, {"head_dim", args.head_dim}};
  node.children.push_back(std::move(inner));
  return node;
}

ModuleSpec mlp(const std::string& fqn, const ModelArgs& args, double std, double std_out) {
  return {.fqn = fqn,
          .kind = ModuleKind::kMlp,
          .options = {{"hidden_size", args.hidden_size}, {"intermediate_size", args.intermediate_size}},
          .children = {linear(fqn + ".gate_proj", args.hidden_size, args.intermediate_size, std),
                       linear(fqn + ".up_proj", args.hidden_size, args.intermediate_size, std),
                       linear(fqn + ".down_proj", args.intermediate_size, args.hidden_size, std_out),
                       {.fqn = fqn + ".act_fn", .kind = ModuleKind::kActivation, .options = {{"hidden_act", std::string("silu")}}}}};
}

ModuleSpec router(const std::string& fqn, const ModelArgs& args, double std) {
  return {.fqn = fqn,
          .kind = ModuleKind::kRouter,
          .options = {{"in_features", args.hidden_size},
                      {"out_features", args.num_experts},
                      {"num_experts", args.num_experts},
                      {"top_k", args.num_experts_per_tok},
                      {"norm_topk_prob", args.norm_topk_prob}},
          .parameters = {{"weight", {args.num_experts, args.hidden_size}, {InitSpec::Kind::kNormal, std}}}};
}

// The names are those of published files, one per expert and matrix. Their order makes gate and up of all experts one tensor, and down
// another, which is how they are multiplied.
ModuleSpec experts(const std::string& fqn, const ModelArgs& args, double std, double std_out) {
  const int64_t num_experts = args.num_experts, hidden = args.hidden_size, intermediate = args.moe_intermediate_size;
  ModuleSpec node{.fqn = fqn,
                  .kind = ModuleKind::kExperts,
                  .options = {{"num_experts", num_experts},
                              {"hidden_size", hidden},
                              {"intermediate_size", intermediate},
                              {"hidden_act", std::string("silu")}}};
  for (int64_t expert = 0; expert < num_experts; ++expert) {
    for (const char* name : {"gate_proj", "up_proj"}) {
      node.parameters.push_back({fmt::format("{}.{}.weight", expert, name), {intermediate, hidden}, {InitSpec::Kind::kNormal, std}});
    }
  }
  const size_t first_down = node.parameters.size();
  for (int64_t expert = 0; expert < num_experts; ++expert) {
    node.parameters.push_back({fmt::format("{}.down_proj.weight", expert), {hidden, intermediate}, {InitSpec::Kind::kNormal, std_out}});
  }
  node.stacks = {{"gate_up_proj", {num_experts, 2 * intermediate, hidden}, 0, first_down},
                 {"down_proj", {num_experts, hidden, intermediate}, first_down, static_cast<size_t>(num_experts)}};
  return node;
}

ModuleSpec moe_block(const std::string& fqn, const ModelArgs& args, double std, double std_out) {
  return {.fqn = fqn,
          .kind = ModuleKind::kMoeBlock,
          .children = {router(fqn + ".gate", args, std), experts(fqn + ".experts", args, std, std_out)}};
}

ModuleSpec decoder_layer(int64_t index, const ModelArgs& args) {
  const std::string fqn = fmt::format("model.layers.{}", index);
  const double std = args.initializer_range;
  const double std_out = args.depth_scaled_init ? std / std::sqrt(2.0 * static_cast<double>(args.num_hidden_layers)) : std;
  return {.fqn = fqn,
          .kind = ModuleKind::kDecoderLayer,
          .options = {{"layer", index}},
          .children = {rms_norm(fqn + ".input_layernorm", args.hidden_size, args.rms_norm_eps),
                       attention(fqn + ".self_attn", args, std, std_out),
                       rms_norm(fqn + ".post_attention_layernorm", args.hidden_size, args.rms_norm_eps),
                       args.is_sparse(index) ? moe_block(fqn + ".mlp", args, std, std_out) : mlp(fqn + ".mlp", args, std, std_out)}};
}

}  // namespace

ModuleSpec build_spec(const ModelArgs& args) {
  const InitSpec normal{InitSpec::Kind::kNormal, args.initializer_range};
  ModuleSpec decoder{.fqn = "model", .kind = ModuleKind::kDecoder};
  decoder.children.push_back({.fqn = "model.embed_tokens",
                              .kind = ModuleKind::kEmbedding,
                              .options = {{"vocab_size", args.vocab_size}, {"hidden_size", args.hidden_size}},
                              .parameters = {{"weight", {args.vocab_size, args.hidden_size}, normal}}});
  for (int64_t i = 0; i < args.num_hidden_layers; ++i) decoder.children.push_back(decoder_layer(i, args));
  decoder.children.push_back(rms_norm("model.norm", args.hidden_size, args.rms_norm_eps));

  ModuleSpec head{.fqn = "lm_head",
                  .kind = ModuleKind::kLmHead,
                  .options = {{"in_features", args.hidden_size}, {"out_features", args.vocab_size}, {"tied", args.tie_word_embeddings}}};
  if (!args.tie_word_embeddings) head.parameters.push_back({"weight", {args.vocab_size, args.hidden_size}, normal});

  return {.fqn = "",
          .kind = ModuleKind::kCausalLm,
          .options = {{"model_type", args.model_type}},
          .children = {std::move(decoder), std::move(head)}};
}

}  // namespace trine
