// The whole-number keys of config.json that give a model its shape, once: reader, writer and resolver walk this table.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/model_args.h"

namespace trine {

struct SizeKey {
  const char* name;  // in config.json and as model.NAME
  int64_t ModelArgs::*member;
  std::optional<int64_t> ModelConfig::*option;
  int64_t least, most;      // beyond `most` no product of two sizes is near 2^63, and no published model comes close
  bool shapes_parameters;   // a change means other parameter shapes, so that weights no longer fit
};

inline constexpr int64_t kMostPositions = 1 << 30;

inline constexpr std::array<SizeKey, 8> kSizeKeys = {{
    {"vocab_size", &ModelArgs::vocab_size, &ModelConfig::vocab_size, 1, 1 << 24, true},
    {"hidden_size", &ModelArgs::hidden_size, &ModelConfig::hidden_size, 1, 1 << 20, true},
    {"intermediate_size", &ModelArgs::intermediate_size, &ModelConfig::intermediate_size, 1, 1 << 24, true},
    {"num_hidden_layers", &ModelArgs::num_hidden_layers, &ModelConfig::num_hidden_layers, 1, 1 << 12, true},
    {"num_attention_heads", &ModelArgs::num_attention_heads, &ModelConfig::num_attention_heads, 1, 1 << 14, true},
    {"num_key_value_heads", &ModelArgs::num_key_value_heads, &ModelConfig::num_key_value_heads, 1, 1 << 14, true},
    {"head_dim", &ModelArgs::head_dim, &ModelConfig::head_dim, 2, 1 << 14, true},
    {"max_position_embeddings", &ModelArgs::max_position_embeddings, &ModelConfig::max_position_embeddings, 1, kMostPositions, false},
}};

// The keys that only a mixture of experts has. More experts than `most` no product of sizes would survive.
inline constexpr std::array<SizeKey, 3> kMoeSizeKeys = {{
    {"num_experts", &ModelArgs::num_experts, &ModelConfig::num_experts, 1, 1 << 14, true},
    {"num_experts_per_tok", &ModelArgs::num_experts_per_tok, &ModelConfig::num_experts_per_tok, 1, 1 << 14, false},
    {"moe_intermediate_size", &ModelArgs::moe_intermediate_size, &ModelConfig::moe_intermediate_size, 1, 1 << 24, true},
}};

// The row of a key that is in either table.
const SizeKey& size_key(std::string_view name);

// Checks sizes against the tables' bounds and against each other. `where` opens the message.
void check_model_args(const ModelArgs& args, const std::string& where);

// The number of parameters without building the tree, in floating point, so that no size can overflow it.
double rough_parameters(const ModelArgs& args);

}  // namespace trine
