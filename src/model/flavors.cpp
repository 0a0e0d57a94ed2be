// The published Qwen3 sizes (torchtitan's flavor names), one row each, small ones for tests, and one that a single machine can train.
#include <algorithm>
#include <array>

#include "base/errors.h"
#include "model/model_args.h"

namespace trine {
namespace {

struct Flavor {
  const char* name;
  int64_t hidden, layers, heads, kv_heads, head_dim, intermediate, vocab;
  bool tied;
  int64_t max_positions;
  int64_t experts = 0, experts_per_token = 0, moe_intermediate = 0;
  int64_t from_layers = 0, from_experts = 0;  // of the published model that the row makes smaller
};

// All: eps 1e-6, theta 1e6, no biases. With experts: in every layer, weights normalised. The debug and tiny rows have heads·head_dim
// unlike hidden, as 0.6B and 4B do.
constexpr std::array<Flavor, 13> kFlavors = {{
    // name          hidden layers heads kv head_dim  ffn    vocab   tied  positions  experts k  width  reduced from
    {"tiny",            64,   2,    4,   2,   32,    128,    320,  false,   4096},
    {"debugmodel",     256,   8,   16,   8,  128,   3072,   2048,   true,   4096},
    {"0.6B",          1024,  28,   16,   8,  128,   3072, 151936,   true,  40960},
    {"1.7B",          2048,  28,   16,   8,  128,   6144, 151936,   true,  40960},
    {"4B",            2560,  36,   32,   8,  128,   9728, 151936,   true,  40960},
    {"8B",            4096,  36,   32,   8,  128,  12288, 151936,  false,  40960},
    {"14B",           5120,  40,   40,   8,  128,  17408, 151936,  false,  40960},
    {"32B",           5120,  64,   64,   8,  128,  25600, 151936,  false,  40960},
    {"tiny_moe",        64,   2,    4,   2,   32,    128,    320,  false,   4096,    8,  2,   32},
    {"debugmodel_moe", 256,   8,   16,   8,  128,   3072,   2048,  false,   4096,   64,  8,  768},
    {"30B-A3B",       2048,  48,   32,   4,  128,   6144, 151936,  false,  40960,  128,  8,  768},
    {"30B-A3B-4L64E", 2048,   4,   32,   4,  128,   6144, 151936,  false,  40960,   64,  4,  768,    48, 128},
    {"235B-A22B",     4096,  94,   64,   4,  128,  12288, 151936,  false,  40960,  128,  8, 1536},
}};

}  // namespace

ModelArgs flavor_args(const std::string& flavor) {
  const auto row = std::ranges::find(kFlavors, flavor, &Flavor::name);
  if (row == kFlavors.end()) {
    throw UserError("model.flavor = \"{}\": no such flavor.{}", flavor, suggest(flavor, flavor_names()));
  }
  ModelArgs args;
  args.model_type = row->experts > 0 ? "qwen3_moe" : "qwen3";
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
  args.num_experts = row->experts;
  args.num_experts_per_tok = row->experts_per_token;
  args.moe_intermediate_size = row->moe_intermediate;
  args.norm_topk_prob = row->experts > 0;
  args.reduced_from_layers = row->from_layers;
  args.reduced_from_experts = row->from_experts;
  return args;
}

std::vector<std::string> flavor_names() {
  std::vector<std::string> names;
  for (const Flavor& flavor : kFlavors) names.emplace_back(flavor.name);
  return names;
}

}  // namespace trine
