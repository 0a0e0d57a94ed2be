// A config.json from elsewhere: refused with a UserError, or understood so that what we write reads back to the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/errors.h"
#include "base/log.h"
#include "model/model_args.h"
#include "model/size_keys.h"

namespace trine {
namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void use(const ModelArgs& args) {
  for (const float value : rope_frequencies(args.rope, args.head_dim).inv_freq) require(value >= 0);
  constexpr int64_t kFewLayers = 64;  // a larger tree is the same again
  if (args.num_hidden_layers <= kFewLayers) require(count(args).parameters > 0);

  const ModelArgs back = parse_config_json(write_config_json(args, "", "bfloat16"), "written");
  for (const SizeKey& key : kSizeKeys) require(back.*key.member == args.*key.member);
  for (const SizeKey& key : kMoeSizeKeys) require(back.*key.member == args.*key.member);
  require(back.norm_topk_prob == args.norm_topk_prob && back.mlp_only_layers == args.mlp_only_layers);
  require(back.rope == args.rope && back.rms_norm_eps == args.rms_norm_eps && back.tie_word_embeddings == args.tie_word_embeddings);
  require(back.eos_token_ids == args.eos_token_ids && back.bos_token_id == args.bos_token_id);
}

}  // namespace
}  // namespace trine

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool quiet = (trine::log::set_level(trine::log::Level::kError), true);
  (void)quiet;
  trine::ModelArgs args;
  try {
    args = trine::parse_config_json({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const trine::UserError&) {
    return 0;
  }
  trine::use(args);
  return 0;
}
