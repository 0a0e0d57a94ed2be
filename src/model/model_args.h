// The sizes and constants that define a model, under config.json's names, and where each of them came from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "model/spec.h"

namespace trine {

// Rotary embedding: plain, or stretched to longer contexts as Transformers computes it.
struct RopeArgs {
  double theta = 10000;
  std::string type = "default";  // default | yarn | linear | llama3
  double factor = 1;
  int64_t original_max_position_embeddings = 0;
  double beta_fast = 32, beta_slow = 1;
  std::optional<double> attention_factor, mscale, mscale_all_dim;
  bool truncate = true;
  double low_freq_factor = 1, high_freq_factor = 4;  // llama3

  bool operator==(const RopeArgs&) const = default;
};

struct ModelArgs {
  std::string model_type = "qwen3";  // qwen3 | qwen3_moe | llama
  int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, num_hidden_layers = 0;
  int64_t num_attention_heads = 0, num_key_value_heads = 0, head_dim = 0;
  int64_t max_position_embeddings = 0;
  double rms_norm_eps = 1e-6;
  bool tie_word_embeddings = false;
  bool qk_norm = true;  // RMSNorm on each head of q and k: Qwen3 yes, Llama no
  double initializer_range = 0.02;
  bool depth_scaled_init = false;
  RopeArgs rope;
  std::vector<int64_t> eos_token_ids;
  std::optional<int64_t> bos_token_id;
  std::string torch_dtype;  // the dtype config.json names; empty if none

  // Mixture of experts. Without experts (0) every layer is dense and nothing else here has a meaning.
  int64_t num_experts = 0, num_experts_per_tok = 0, moe_intermediate_size = 0;
  bool norm_topk_prob = false;  // the weights of the selected experts are divided by their sum
  int64_t decoder_sparse_step = 1;
  std::vector<int64_t> mlp_only_layers;
  double router_aux_loss_coef = 0.001;  // kept for export; the loss of a run is moe.aux_loss_weight's

  // What a flavor or file had before explicit options (or the flavor itself) made it smaller; 0: not made smaller.
  int64_t reduced_from_layers = 0, reduced_from_experts = 0;

  // Whether layer `layer` has experts; the others are dense, of intermediate_size (case A7).
  bool is_sparse(int64_t layer) const;
  int64_t num_sparse_layers() const;
};

// Inverse frequencies (head_dim/2 values, fp32 as Transformers has them) and the factor on cos and sin.
struct RopeFrequencies {
  std::vector<float> inv_freq;
  double attention_scaling = 1;
};
RopeFrequencies rope_frequencies(const RopeArgs& rope, int64_t head_dim);

// The same for a rotary node of the spec tree, from the options it has now (an override may have changed them).
RopeFrequencies rope_frequencies(const ModuleSpec& rotary);

// Parses a Hugging Face config.json of a supported type. Throws UserError naming file and key (cases A1-A12).
ModelArgs read_config_json(const std::filesystem::path& file);
// The same from text; `where` opens every message.
ModelArgs parse_config_json(std::string_view text, const std::string& where);

// The JSON text of a config.json for these arguments, based on `source` (its other keys are kept) when that file exists.
std::string write_config_json(const ModelArgs& args, const std::filesystem::path& source, const std::string& torch_dtype);

// Explicit model.* options over config.json over flavor. `weights_loaded`: a difference from config.json is then an error that names
// both values. Warns when the recipe's or the flavor's name says another size than the arguments have. Options of [moe] must fit the model.
ModelArgs resolve_model_args(const Config& config, bool weights_loaded);

// One row per published Qwen3 (0.6B to 32B, 30B-A3B and 235B-A22B), a reduced one, and small ones for tests; throws for an unknown name,
// with the nearest one.
ModelArgs flavor_args(const std::string& flavor);
std::vector<std::string> flavor_names();

// The spec tree of a causal language model.
ModuleSpec build_spec(const ModelArgs& args);

// Parameter counts and FLOPs by DESIGN's convention (docs/model.md): matrices only, head once, look-up 0, norms 0, the router whole,
// routed experts times k/E.
struct ModelCounts {
  int64_t parameters = 0;         // every stored value, a tied head once
  int64_t active_matrices = 0;    // N_active
  double flops_per_token(int64_t seq_len) const;         // forward and backward, attention not halved for causality
  double flops_per_token_causal(int64_t seq_len) const;  // the same with attention halved
  int64_t num_layers = 0, num_heads = 0, head_dim = 0;
};
ModelCounts count(const ModelArgs& args);

// The loss to expect of random weights: ln V + hidden·std²/2 (derivation in counts.cpp).
double random_loss(const ModelArgs& args);

// "596M parameters", of a mixture of experts "30.5B parameters, 48 layers, 128 experts".
std::string size_in_words(const ModelArgs& args);

// The lines a run prints at its start about the model: sizes, experts, parameters total and active, tied or not, rotary embedding, and
// what it was reduced from.
std::string describe_model(const ModelArgs& args);

}  // namespace trine
