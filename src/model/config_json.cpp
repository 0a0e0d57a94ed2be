// Reading the config.json of a Hugging Face folder: only what Trine computes exactly is accepted, everything else is named.
//
// Absent keys take the default of the Transformers 5.16 class of that model_type, as Transformers itself would; for keys that give
// the model its shape a warning says so, since published files have them all.
#include <fmt/ranges.h>

#include <algorithm>

#include "base/errors.h"
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "model/json_fields.h"
#include "model/model_classes.h"
#include "model/moe_json.h"
#include "model/rope_json.h"
#include "model/size_keys.h"

namespace trine {
namespace {

// Keys that describe the file or other uses of the model, and change nothing that Trine computes.
const std::vector<std::string> kWithoutEffect = {"architectures", "transformers_version", "use_cache", "pad_token_id", "_name_or_path",
                                                 "max_window_layers", "sliding_window", "use_sliding_window", "rope_interleaved"};

const ModelClass& class_of(JsonFields& fields) {
  std::vector<std::string_view> types;
  for (const ModelClass& known : model_classes()) types.push_back(known.model_type);
  const std::string supported = fmt::format("supported: {} (without biases)", fmt::join(types, ", "));
  const auto type = fields.string("model_type");
  if (!type) throw UserError("{}: no \"model_type\"; {}", fields.where(), supported);
  const ModelClass* found = find_model_class(*type);
  if (!found) throw UserError("{}: model_type \"{}\" is not supported; {}", fields.where(), *type, supported);
  return *found;
}

void read_sizes(JsonFields& fields, const ModelClass& defaults, ModelArgs& args) {
  std::vector<std::string> absent;  // "key = the default that stands in"
  const auto read = [&](const char* name, int64_t fallback) {
    const SizeKey& key = size_key(name);
    const auto found = fields.integer(name, key.least, key.most);
    if (!found && fields.has(name)) fields.wrong(name, fmt::format("a whole number from {} to {}", key.least, key.most));
    if (!found) absent.push_back(fmt::format("{} = {}", name, fallback));
    args.*key.member = found.value_or(fallback);
  };
  read("vocab_size", defaults.vocab_size);
  read("hidden_size", defaults.hidden_size);
  read("intermediate_size", defaults.intermediate_size);
  read("num_hidden_layers", defaults.num_hidden_layers);
  read("num_attention_heads", defaults.num_attention_heads);
  read("max_position_embeddings", defaults.max_position_embeddings);
  // These two may be null or absent: then they follow from the others.
  const bool null_heads = fields.has("num_key_value_heads") && !fields.value("num_key_value_heads");
  if (null_heads || defaults.num_key_value_heads == 0) {
    args.num_key_value_heads = fields.integer("num_key_value_heads", 1, args.num_attention_heads).value_or(args.num_attention_heads);
  } else {
    read("num_key_value_heads", defaults.num_key_value_heads);
  }
  if (defaults.head_dim != 0) {
    read("head_dim", defaults.head_dim);
  } else if (const auto head_dim = fields.integer("head_dim", 1, size_key("head_dim").most)) {
    args.head_dim = *head_dim;
  } else if (args.hidden_size % args.num_attention_heads == 0) {
    args.head_dim = args.hidden_size / args.num_attention_heads;
  } else {
    throw UserError("{}: there is no head_dim, hidden_size is {} and num_attention_heads is {}; the first must be a multiple of the second",
                    fields.where(), args.hidden_size, args.num_attention_heads);
  }
  if (defaults.experts) read_moe(fields, args, absent);
  if (!absent.empty()) {
    log::warning("{}: keys are missing, and model_type {}'s defaults stand in: {}", fields.where(), args.model_type,
                 fmt::join(absent, ", "));
  }
}

// What Trine does not compute must be off.
void refuse_unsupported(JsonFields& fields, const ModelArgs& args) {
  for (const char* key : {"attention_bias", "mlp_bias"}) {
    if (fields.boolean(key).value_or(false)) fields.wrong(key, "false (biases are not supported)");
  }
  if (fields.string("hidden_act").value_or("silu") != "silu") fields.wrong("hidden_act", "\"silu\"");
  if (fields.value("quantization_config")) {
    throw UserError("{}: \"quantization_config\": quantised weights are not supported; use the folder in bfloat16 or float32",
                    fields.where());
  }
  if (const nlohmann::json* types = fields.value("layer_types")) {
    if (!types->is_array() || static_cast<int64_t>(types->size()) != args.num_hidden_layers) {
      fields.wrong("layer_types", fmt::format("a list with one entry for each of the {} layers", args.num_hidden_layers));
    }
    for (const nlohmann::json& type : *types) {
      if (type != "full_attention") fields.wrong("layer_types", "\"full_attention\" for every layer (no other is supported)");
    }
  } else if (args.model_type == "qwen3_moe" && fields.boolean("use_sliding_window").value_or(false)) {
    // There every layer slides. The class default of sliding_window is 4096, so that an absent one is one too.
    if (!fields.has("sliding_window") || fields.value("sliding_window")) {
      throw UserError("{}: use_sliding_window is true; sliding windows are not supported", fields.where());
    }
  } else if (args.model_type == "qwen3" && fields.boolean("use_sliding_window").value_or(false) && fields.value("sliding_window")) {
    // Layers from max_window_layers on would slide; the class default of that key is 28.
    const int64_t first = fields.integer("max_window_layers", 0, INT64_MAX).value_or(28);
    if (first < args.num_hidden_layers) {
      throw UserError("{}: use_sliding_window is true with sliding_window {}, from layer {} on; sliding windows are not supported",
                      fields.where(), fields.value("sliding_window")->dump(), first);
    }
  }
  const double dropout = fields.number("attention_dropout").value_or(0);
  if (dropout != 0) log::warning("{}: attention_dropout is {}; Trine trains without dropout", fields.where(), dropout);
  const auto pretraining_tp = fields.integer("pretraining_tp", 1, 1 << 20);
  if (pretraining_tp.value_or(1) != 1) {
    log::warning("{}: pretraining_tp is {}; it has no effect (the result is the same up to rounding)", fields.where(), *pretraining_tp);
  }
}

void read_token_ids(JsonFields& fields, const ModelClass& defaults, ModelArgs& args) {
  constexpr int64_t kMost = INT32_MAX;
  if (!fields.has("eos_token_id")) {
    if (defaults.eos_token_id) args.eos_token_ids = {*defaults.eos_token_id};
  } else if (const nlohmann::json* eos = fields.value("eos_token_id"); eos && eos->is_array()) {
    for (const nlohmann::json& id : *eos) {
      if (!id.is_number_unsigned() || id.get<uint64_t>() > kMost) fields.wrong("eos_token_id", "a token id, a list of token ids, or null");
      args.eos_token_ids.push_back(id.get<int64_t>());
    }
  } else if (eos) {
    if (!eos->is_number_integer()) fields.wrong("eos_token_id", "a token id, a list of token ids, or null");
    args.eos_token_ids = {*fields.integer("eos_token_id", 0, kMost)};
  }
  args.bos_token_id = fields.integer("bos_token_id", 0, kMost);
  if (!fields.has("bos_token_id")) args.bos_token_id = defaults.bos_token_id;
}

// The dtype of the stored weights: `dtype`, before Transformers 5 `torch_dtype`.
std::string read_dtype(JsonFields& fields) {
  const auto dtype = fields.string("dtype"), older = fields.string("torch_dtype");
  if (dtype && older && *dtype != *older) {
    log::warning("{}: dtype is \"{}\" and torch_dtype is \"{}\"; the first is used", fields.where(), *dtype, *older);
  }
  return dtype ? *dtype : older.value_or("");
}

template <class T>
void read_plain(JsonFields& fields, const char* key, std::optional<T> found, T& target, const char* expected) {
  if (found) target = *found;
  if (!found && fields.has(key)) fields.wrong(key, expected);  // null
}

}  // namespace

ModelArgs read_config_json(const std::filesystem::path& file) { return parse_config_json(read_file(file), file.string()); }

ModelArgs parse_config_json(std::string_view text, const std::string& where) {
  const Json json = parse_json(text, where);
  JsonFields fields(json, where);
  const ModelClass& defaults = class_of(fields);

  ModelArgs args;
  args.model_type = defaults.model_type;
  args.qk_norm = defaults.qk_norm;
  read_sizes(fields, defaults, args);
  // Both classes share these three defaults with ModelArgs: 1e-6, false, 0.02.
  read_plain(fields, "rms_norm_eps", fields.number("rms_norm_eps"), args.rms_norm_eps, "a number such as 1e-6");
  read_plain(fields, "tie_word_embeddings", fields.boolean("tie_word_embeddings"), args.tie_word_embeddings, "true or false");
  read_plain(fields, "initializer_range", fields.number("initializer_range"), args.initializer_range, "a number such as 0.02");
  args.rope = read_rope(fields, args.max_position_embeddings);
  refuse_unsupported(fields, args);
  read_token_ids(fields, defaults, args);
  args.torch_dtype = read_dtype(fields);

  for (const std::string& key : kWithoutEffect) fields.accept(key);
  if (const auto unread = fields.unread(); !unread.empty()) {
    log::warning("{}: keys that Trine does not know, and that have no effect: {}", where, fmt::join(unread, ", "));
  }
  check_model_args(args, where);
  warn_of_experts(args, where);
  if (args.model_type == "llama" && args.hidden_size % args.num_attention_heads != 0) {
    throw UserError("{}: hidden_size is {} and num_attention_heads is {}; for model_type llama Transformers wants a multiple",
                    where, args.hidden_size, args.num_attention_heads);
  }
  return args;
}

}  // namespace trine
