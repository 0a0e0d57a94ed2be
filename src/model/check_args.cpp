// What must hold among the sizes of a model, wherever they came from.
#include <algorithm>
#include <span>

#include "base/errors.h"
#include "model/size_keys.h"

namespace trine {

const SizeKey& size_key(std::string_view name) {
  const auto has_name = [&](const SizeKey& key) { return key.name == name; };
  const auto found = std::ranges::find_if(kSizeKeys, has_name);
  return found != kSizeKeys.end() ? *found : *std::ranges::find_if(kMoeSizeKeys, has_name);
}

bool ModelArgs::is_sparse(int64_t layer) const {
  return num_experts > 0 && (layer + 1) % decoder_sparse_step == 0 && std::ranges::find(mlp_only_layers, layer) == mlp_only_layers.end();
}

int64_t ModelArgs::num_sparse_layers() const {
  int64_t result = 0;
  for (int64_t layer = 0; layer < num_hidden_layers; ++layer) result += is_sparse(layer);
  return result;
}

double rough_parameters(const ModelArgs& args) {
  const auto real = [](int64_t value) { return static_cast<double>(value); };
  const double attention = real(args.hidden_size) * real(args.head_dim) * 2 * real(args.num_attention_heads + args.num_key_value_heads);
  const double mlp = 3 * real(args.hidden_size) * real(args.intermediate_size);
  const double experts = real(args.hidden_size) * real(args.num_experts) * (3 * real(args.moe_intermediate_size) + 1);
  const int64_t sparse = args.num_sparse_layers();
  const double tables = (args.tie_word_embeddings ? 1 : 2) * real(args.vocab_size) * real(args.hidden_size);
  return tables + real(args.num_hidden_layers) * attention + real(args.num_hidden_layers - sparse) * mlp + real(sparse) * experts;
}

namespace {

void check_bounds(std::span<const SizeKey> keys, const ModelArgs& args, const std::string& where) {
  for (const SizeKey& key : keys) {
    const int64_t value = args.*key.member;
    if (value < key.least || value > key.most) {
      throw UserError("{}: {} is {}; expected {} to {}", where, key.name, value, key.least, key.most);
    }
  }
}

void check_experts(const ModelArgs& args, const std::string& where) {
  if (args.num_experts == 0) return;
  check_bounds(kMoeSizeKeys, args, where);
  if (args.num_experts_per_tok > args.num_experts) {
    throw UserError("{}: num_experts_per_tok is {} and num_experts is {}; a token cannot have more experts than there are", where,
                    args.num_experts_per_tok, args.num_experts);
  }
  constexpr int64_t kMostMatrices = 1 << 20;  // each has a name; published models have some ten thousand
  if (3 * args.num_experts * args.num_sparse_layers() > kMostMatrices) {
    throw UserError("{}: {} layers of {} experts make more than {} matrices, which is taken for a damaged file", where,
                    args.num_sparse_layers(), args.num_experts, kMostMatrices);
  }
}

}  // namespace

void check_model_args(const ModelArgs& args, const std::string& where) {
  check_bounds(kSizeKeys, args, where);
  check_experts(args, where);
  if (args.head_dim % 2 != 0) {
    throw UserError("{}: head_dim is {}; the rotary embedding turns pairs, so that it must be even", where, args.head_dim);
  }
  if (args.num_attention_heads % args.num_key_value_heads != 0) {
    throw UserError("{}: num_attention_heads is {} and num_key_value_heads is {}; the first must be a multiple of the second", where,
                    args.num_attention_heads, args.num_key_value_heads);
  }
  if (!(args.rms_norm_eps > 0 && args.rms_norm_eps < 1)) {
    throw UserError("{}: rms_norm_eps is {}; expected a number between 0 and 1", where, args.rms_norm_eps);
  }
  if (!(args.initializer_range >= 0 && args.initializer_range <= 1)) {
    throw UserError("{}: initializer_range is {}; expected a number from 0 to 1", where, args.initializer_range);
  }
  if (!(args.rope.theta > 1 && args.rope.theta < 1e30)) {
    throw UserError("{}: rope_theta is {}; expected a number above 1, such as 1000000", where, args.rope.theta);
  }
  constexpr double kMostParameters = 1e13;
  if (rough_parameters(args) > kMostParameters) {
    throw UserError("{}: these sizes make about {:.3g} parameters; more than {:.0e} is taken for a damaged file", where,
                    rough_parameters(args), kMostParameters);
  }
}

}  // namespace trine
