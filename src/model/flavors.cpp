// The published dense Qwen3 sizes (torchtitan's flavor names), one row each, and two small ones for tests.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/errors.h"
#include "model/model_args.h"

namespace trine {
namespace {

struct Flavor {
  const char* name;
  int64_t hidden, layers, heads, kv_heads, head_dim, intermediate, vocab;
  bool tied;
  int64_t max_positions;
};

// All: head_dim apart, eps 1e-6, theta 1e6, no biases. debugmodel and tiny have heads·head_dim unlike hidden, as 0.6B and 4B do.
constexpr std::array<Flavor, 8> kFlavors = {{
    // name        hidden layers heads kv head_dim  ffn    vocab   tied  positions
    {"tiny",          64,   2,    4,   2,   32,    128,    320,  false,   4096},
    {"debugmodel",   256,   8,   16,   8,  128,   3072,   2048,   true,   4096},
    {"0.6B",        1024,  28,   16,   8,  128,   3072, 151936,   true,  40960},
    {"1.7B",        2048,  28,   16,   8,  128,   6144, 151936,   true,  40960},
    {"4B",          2560,  36,   32,   8,  128,   9728, 151936,   true,  40960},
    {"8B",          4096,  36,   32,   8,  128,  12288, 151936,  false,  40960},
    {"14B",         5120,  40,   40,   8,  128,  17408, 151936,  false,  40960},
    {"32B",         5120,  64,   64,   8,  128,  25600, 151936,  false,  40960},
}};

constexpr std::array<std::string_view, 3> kMixtureOfExperts = {"debugmodel_moe", "30B-A3B", "235B-A22B"};

}  // namespace

ModelArgs flavor_args(const std::string& flavor) {
  const auto row = std::ranges::find(kFlavors, flavor, &Flavor::name);
  if (row == kFlavors.end()) {
    if (std::ranges::find(kMixtureOfExperts, flavor) != kMixtureOfExperts.end()) {
      throw UserError("model.flavor = \"{}\": mixture of experts is not in this version; dense flavors: {}", flavor,
                      fmt::join(flavor_names(), ", "));
    }
    throw UserError("model.flavor = \"{}\": no such flavor.{}", flavor, suggest(flavor, flavor_names()));
  }
  ModelArgs args;
  args.model_type = "qwen3";
  args.vocab_size = row->vocab;
  args.hidden_size = row->hidden;
  args.intermediate_size = row->intermediate;
  args.num_hidden_layers = row->layers;
  args.num_attention_heads = row->heads;
  args.num_key_value_heads = row->kv_heads;
  args.head_dim = row->head_dim;
  args.max_position_embeddings = row->max_positions;
  args.tie_word_embeddings = row->tied;
  args.rope.theta = 1e6;
  return args;
}

std::vector<std::string> flavor_names() {
  std::vector<std::string> names;
  for (const Flavor& flavor : kFlavors) names.emplace_back(flavor.name);
  return names;
}

}  // namespace trine
