// Parameters, FLOPs and the loss of a random start, all from the spec tree.
#include <cmath>

#include "model/model_args.h"

namespace trine {

ModelCounts count(const ModelArgs& args) {
  ModelCounts counts;
  counts.num_layers = args.num_hidden_layers;
  counts.num_heads = args.num_attention_heads;
  counts.head_dim = args.head_dim;
  visit(build_spec(args), [&](const ModuleSpec& node) {
    for (const ParameterSpec& parameter : node.parameters) counts.parameters += parameter.numel();
    // A matrix product per token: linears, and the head whether or not it has a matrix of its own. A look-up multiplies nothing.
    if (node.kind == ModuleKind::kLinear || node.kind == ModuleKind::kLmHead || node.kind == ModuleKind::kRouter) {
      counts.active_matrices += node.int_option("in_features") * node.int_option("out_features");
    }
    // A token goes through k of the E experts, each of three matrices.
    if (node.kind == ModuleKind::kExperts) {
      counts.active_matrices += 3 * args.num_experts_per_tok * node.int_option("hidden_size") * node.int_option("intermediate_size");
    }
  });
  return counts;
}

// Per token: 2 FLOPs for each weight forward and 4 backward; scores and their product with the values take 2·heads·head_dim·S each
// forward, and twice that backward, in every layer. Under the causal mask half of the scores are never needed.
double ModelCounts::flops_per_token(int64_t seq_len) const {
  const double attention = 12.0 * static_cast<double>(num_layers * num_heads * head_dim) * static_cast<double>(seq_len);
  return 6.0 * static_cast<double>(active_matrices) + attention;
}

double ModelCounts::flops_per_token_causal(int64_t seq_len) const {
  return (flops_per_token(0) + flops_per_token(seq_len)) / 2;
}

// After the final RMSNorm (weights 1) a hidden vector h has |h|² = hidden. A head row w with independent N(0, std²) entries then gives
// a logit w·h ~ N(0, s²), s² = hidden·std², whatever h is. The loss is log Σ exp(logits) - logit(label): the sum of V log-normal
// values is near its mean V·exp(s²/2), and the label's logit has mean 0. So the loss is ln V + s²/2. (In a tied head one row of the V,
// the input token's own, is not independent of h; it matters little unless that token is the label.)
double random_loss(const ModelArgs& args) {
  const double logit_variance = static_cast<double>(args.hidden_size) * args.initializer_range * args.initializer_range;
  return std::log(static_cast<double>(args.vocab_size)) + logit_variance / 2;
}

}  // namespace trine
