// The supported values of config.json's model_type, one row each: what the published class is called, and what it assumes for absent keys.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace trine {

struct ModelClass {
  std::string_view model_type;
  const char* architecture;  // for "architectures"
  bool qk_norm;
  bool experts;  // a mixture of them
  // Defaults of the Transformers 5.16 configuration class.
  int64_t vocab_size, hidden_size, intermediate_size, num_hidden_layers, num_attention_heads;
  int64_t num_key_value_heads;  // 0: as many as attention heads
  int64_t head_dim;             // 0: hidden_size / num_attention_heads
  int64_t max_position_embeddings;
  std::optional<int64_t> bos_token_id, eos_token_id;
};

std::span<const ModelClass> model_classes();

// Null pointer for another type.
const ModelClass* find_model_class(std::string_view model_type);

}  // namespace trine
