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

}  // namespace

std::string describe_model(const ModelArgs& args) {
  const ModelCounts counts = count(args);
  return fmt::format(
      "model: {}, {} layers, hidden {}, {} heads ({} for keys and values) of {}, ffn {}, vocabulary {}, {} head{}\n"
      "rotary: {}, up to {} positions\n"
      "parameters: {} ({}), active in matrix products: {} ({})",
      args.model_type, args.num_hidden_layers, args.hidden_size, args.num_attention_heads, args.num_key_value_heads, args.head_dim,
      args.intermediate_size, args.vocab_size, args.tie_word_embeddings ? "tied" : "untied", args.qk_norm ? ", q/k norm" : "",
      describe_rope(args.rope), args.max_position_embeddings, with_commas(counts.parameters), in_parameters(counts.parameters),
      with_commas(counts.active_matrices), in_parameters(counts.active_matrices));
}

}  // namespace trine
