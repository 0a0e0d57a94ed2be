// Continuing a text token by token, with keys and values kept from one token to the next.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "model/segments.h"
#include "train/sampling.h"

namespace trine {

struct GenerateOptions {
  int64_t max_new_tokens = 128;
  SamplingOptions sampling;
  uint64_t seed = 0;                 // token n is drawn with number n of this seed's stream
  std::vector<int64_t> end_tokens;   // generation stops after one of these
};

// The new tokens, the end token (if one was reached) included. `on_token` hears of each as soon as it is chosen. Stops early at
// max_position_embeddings. Throws UserError for an empty prompt, one that fills the model's positions, or an id without a row.
std::vector<int32_t> generate(Model& model, std::span<const int32_t> prompt, const GenerateOptions& options,
                              const std::function<void(int32_t)>& on_token = {});

}  // namespace trine
