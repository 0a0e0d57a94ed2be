// What must hold among the sizes of a model, wherever they came from.
#include <algorithm>

#include "base/errors.h"
#include "model/size_keys.h"

namespace trine {

const SizeKey& size_key(std::string_view name) {
  return *std::ranges::find_if(kSizeKeys, [&](const SizeKey& key) { return key.name == name; });
}

double rough_parameters(const ModelArgs& args) {
  const auto real = [](int64_t value) { return static_cast<double>(value); };
  const double attention = real(args.hidden_size) * real(args.head_dim) * 2 * real(args.num_attention_heads + args.num_key_value_heads);
  const double mlp = 3 * real(args.hidden_size) * real(args.intermediate_size);
  const double tables = (args.tie_word_embeddings ? 1 : 2) * real(args.vocab_size) * real(args.hidden_size);
  return tables + real(args.num_hidden_layers) * (attention + mlp);
}

void check_model_args(const ModelArgs& args, const std::string& where) {
  for (const SizeKey& key : kSizeKeys) {
    const int64_t value = args.*key.member;
    if (value < key.least || value > key.most) {
      throw UserError("{}: {} is {}; expected {} to {}", where, key.name, value, key.least, key.most);
    }
  }
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
