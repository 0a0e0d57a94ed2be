// Writing the config.json of an export: the source's file with the keys that must change, or a complete one where there is no source.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/files.h"
#include "base/json.h"
#include "model/model_classes.h"
#include "model/moe_json.h"
#include "model/rope_json.h"
#include "model/size_keys.h"

namespace trine {
namespace {

OrderedJson eos_json(const ModelArgs& args) {
  if (args.eos_token_ids.empty()) return nullptr;
  if (args.eos_token_ids.size() == 1) return args.eos_token_ids.front();
  return args.eos_token_ids;
}

OrderedJson bos_json(const ModelArgs& args) { return args.bos_token_id ? OrderedJson(*args.bos_token_id) : OrderedJson(nullptr); }

// theta stands at the top level as well, where readers older than rope_parameters look for it.
void set_rope(OrderedJson& json, const RopeArgs& rope) {
  json.erase("rope_scaling");
  json.erase("original_max_position_embeddings");
  json["rope_theta"] = rope.theta;
  json["rope_parameters"] = rope_parameters_json(rope);
}

void set_dtype(OrderedJson& json, const std::string& dtype) {
  const bool older = json.contains("torch_dtype");
  if (older) json["torch_dtype"] = dtype;
  if (json.contains("dtype") || !older) json["dtype"] = dtype;
}

OrderedJson complete(const ModelArgs& args) {
  OrderedJson json = {{"architectures", {find_model_class(args.model_type)->architecture}}, {"model_type", args.model_type}};
  for (const SizeKey& key : kSizeKeys) json[key.name] = args.*key.member;
  set_moe(json, args);
  json["hidden_act"] = "silu";
  json["rms_norm_eps"] = args.rms_norm_eps;
  json["initializer_range"] = args.initializer_range;
  json["attention_bias"] = false;
  json["attention_dropout"] = 0.0;
  if (args.model_type == "llama") json["mlp_bias"] = false;
  set_rope(json, args.rope);
  json["bos_token_id"] = bos_json(args);
  json["eos_token_id"] = eos_json(args);
  json["use_cache"] = true;
  return json;
}

// Sets the keys whose meaning in `json`, as read into `old`, differs from `args`.
void update(OrderedJson& json, const ModelArgs& old, const ModelArgs& args) {
  if (old.model_type != args.model_type) throw std::logic_error("write_config_json: the source has another model_type");
  // One changed size writes them all: an absent key may have followed from another (head_dim from hidden_size).
  if (std::ranges::any_of(kSizeKeys, [&](const SizeKey& key) { return old.*key.member != args.*key.member; })) {
    for (const SizeKey& key : kSizeKeys) json[key.name] = args.*key.member;
  }
  update_moe(json, old, args);
  if (old.num_hidden_layers != args.num_hidden_layers) json.erase("layer_types");  // all full attention, which is the default
  if (old.rms_norm_eps != args.rms_norm_eps) json["rms_norm_eps"] = args.rms_norm_eps;
  if (old.initializer_range != args.initializer_range) json["initializer_range"] = args.initializer_range;
  if (old.rope != args.rope) set_rope(json, args.rope);
  if (old.eos_token_ids != args.eos_token_ids) json["eos_token_id"] = eos_json(args);
  if (old.bos_token_id != args.bos_token_id) json["bos_token_id"] = bos_json(args);
}

}  // namespace

std::string write_config_json(const ModelArgs& args, const std::filesystem::path& source, const std::string& torch_dtype) {
  OrderedJson json;
  if (!source.empty() && std::filesystem::exists(source)) {
    const std::string text = read_file(source);
    const ModelArgs old = parse_config_json(text, source.string());  // refuses what the plain parse below would let through
    json = OrderedJson::parse(text);
    update(json, old, args);
  } else {
    json = complete(args);
  }
  json["tie_word_embeddings"] = args.tie_word_embeddings;
  set_dtype(json, torch_dtype);
  return json.dump(2) + "\n";
}

}  // namespace trine
