// What a run says about its model at the start.
#include <fmt/format.h>

#include "base/format.h"
#include "model/model_args.h"

namespace trine {
namespace {

std::string describe_rope(const RopeArgs& rope) {
  std::string text = fmt::format("theta {}", rope.theta);
  if (rope.type == "default") return text;
  text += fmt::format(", {} factor {}", rope.type, rope.factor);
  if (rope.original_max_position_embeddings > 0) text += fmt::format(" over {} positions", rope.original_max_position_embeddings);
  return text;
}

// The feed-forward part: dense layers, layers with experts, or both.
std::string describe_ffn(const ModelArgs& args) {
  const int64_t sparse = args.num_sparse_layers(), dense = args.num_hidden_layers - sparse;
  std::string text;
  if (sparse > 0) {
    text = fmt::format("{} experts of {}, top {}{}", args.num_experts, args.moe_intermediate_size, args.num_experts_per_tok,
                       args.norm_topk_prob ? " with weights that sum to 1" : "");
    if (dense > 0) text += fmt::format(" in {} layer{}", sparse, sparse == 1 ? "" : "s");
  }
  if (dense == 0) return text;
  if (sparse == 0) return fmt::format("ffn {}", args.intermediate_size);
  return text + fmt::format(", ffn {} in {} dense layer{}", args.intermediate_size, dense, dense == 1 ? "" : "s");
}

std::string describe_reduction(const ModelArgs& args) {
  std::string text;
  if (args.reduced_from_layers > 0) text = fmt::format("{} layers", args.reduced_from_layers);
  if (args.reduced_from_experts > 0) text += fmt::format("{}{} experts", text.empty() ? "" : " and ", args.reduced_from_experts);
  return text.empty() ? "" : ", reduced from " + text;
}

}  // namespace

std::string size_in_words(const ModelArgs& args) {
  const std::string parameters = in_parameters(count(args).parameters) + " parameters";
  if (args.num_experts == 0) return parameters;
  return fmt::format("{}, {} layers, {} experts", parameters, args.num_hidden_layers, args.num_experts);
}

std::string describe_model(const ModelArgs& args) {
  const ModelCounts counts = count(args);
  return fmt::format(
      "model: {}, {} layers, hidden {}, {} heads ({} for keys and values) of {}, {}, vocabulary {}, {} head{}{}\n"
      "rotary: {}, up to {} positions\n"
      "parameters: {} ({}), active in matrix products: {} ({})",
      args.model_type, args.num_hidden_layers, args.hidden_size, args.num_attention_heads, args.num_key_value_heads, args.head_dim,
      describe_ffn(args), args.vocab_size, args.tie_word_embeddings ? "tied" : "untied", args.qk_norm ? ", q/k norm" : "",
      describe_reduction(args), describe_rope(args.rope), args.max_position_embeddings, with_commas(counts.parameters),
      in_parameters(counts.parameters), with_commas(counts.active_matrices), in_parameters(counts.active_matrices));
}

}  // namespace trine
