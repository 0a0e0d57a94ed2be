#include "train/generate.h"

#include <algorithm>

#include "base/errors.h"
#include "base/log.h"
#include "base/random.h"

namespace trine {
namespace {

at::Tensor as_row(std::span<const int32_t> ids) {
  at::Tensor row = at::empty({1, static_cast<int64_t>(ids.size())}, at::kLong);
  std::copy(ids.begin(), ids.end(), row.data_ptr<int64_t>());
  return row;
}

void check_prompt(std::span<const int32_t> prompt, const ModelArgs& args) {
  if (prompt.empty()) throw UserError("the prompt has no token; generation needs at least one to begin with");
  for (int32_t id : prompt) {
    if (id < 0 || id >= args.vocab_size) {
      throw UserError("the prompt has the token {}, but the embedding has {} rows: tokenizer and model do not belong together", id,
                      args.vocab_size);
    }
  }
  if (static_cast<int64_t>(prompt.size()) >= args.max_position_embeddings) {
    throw UserError("the prompt has {} tokens, and the model's positions end at {} (max_position_embeddings)", prompt.size(),
                    args.max_position_embeddings);
  }
}

}  // namespace

std::vector<int32_t> generate(Model& model, std::span<const int32_t> prompt, const GenerateOptions& options,
                              const std::function<void(int32_t)>& on_token) {
  options.sampling.check();
  check_prompt(prompt, model.args());
  const auto prompt_length = static_cast<int64_t>(prompt.size());
  const int64_t most = std::min(options.max_new_tokens, model.args().max_position_embeddings - prompt_length);
  if (most < options.max_new_tokens) {
    log::warning("at most {} tokens can follow a prompt of {}: the model has {} positions", most, prompt_length,
                 model.args().max_position_embeddings);
  }

  const CounterRandom random(options.seed, "generate");
  KvCache cache = model.make_cache(/*rows=*/1, prompt_length + most);
  std::vector<int32_t> generated;
  BatchInputs inputs;
  inputs.input_ids_bs = as_row(prompt);
  while (static_cast<int64_t>(generated.size()) < most) {
    inputs.cache = &cache;
    const at::Tensor logits_v = model.logits(inputs, /*last_only=*/true).view({-1});
    const auto token = static_cast<int32_t>(choose_token(logits_v, options.sampling, random.uniform(generated.size())));
    generated.push_back(token);
    if (on_token) on_token(token);
    if (std::find(options.end_tokens.begin(), options.end_tokens.end(), token) != options.end_tokens.end()) break;
    inputs = BatchInputs();  // positions, and with them the rotary rows, are new
    inputs.input_ids_bs = as_row(std::span(&token, 1));
  }
  return generated;
}

}  // namespace trine
