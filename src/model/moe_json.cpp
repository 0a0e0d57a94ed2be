#include "model/moe_json.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/errors.h"
#include "base/log.h"
#include "model/size_keys.h"

namespace trine {
namespace {

constexpr const char* kExperts = "num_experts";
constexpr const char* kLocalExperts = "num_local_experts";

// Defaults of the Transformers 5.16 class. It has one for the number of experts too, which is not taken: a file that lost the key
// describes another model than the one it came with.
constexpr int64_t kDefaultExpertsPerToken = 8, kDefaultMoeIntermediate = 768;

int64_t read_num_experts(JsonFields& fields) {
  const SizeKey& key = size_key(kExperts);
  const auto plain = fields.integer(kExperts, key.least, key.most), local = fields.integer(kLocalExperts, key.least, key.most);
  if (plain && local && *plain != *local) {
    throw UserError("{}: {} is {} and {} is {}; they mean the same and must be equal", fields.where(), kExperts, *plain, kLocalExperts,
                    *local);
  }
  if (!plain && !local) {
    throw UserError("{}: model_type \"qwen3_moe\" needs the number of experts, and there is neither {} nor {}", fields.where(), kExperts,
                    kLocalExperts);
  }
  return plain ? *plain : *local;
}

std::vector<int64_t> read_layers(JsonFields& fields) {
  std::vector<int64_t> layers;
  const nlohmann::json* list = fields.value("mlp_only_layers");
  if (!list) return layers;
  const auto wrong = [&] { fields.wrong("mlp_only_layers", "a list of layer numbers from 0, or null"); };
  const auto most = static_cast<uint64_t>(size_key("num_hidden_layers").most);
  if (!list->is_array() || list->size() > most) wrong();
  for (const nlohmann::json& layer : *list) {
    if (!layer.is_number_unsigned() || layer.get<uint64_t>() >= most) wrong();
    layers.push_back(layer.get<int64_t>());
  }
  return layers;
}

}  // namespace

void read_moe(JsonFields& fields, ModelArgs& args, std::vector<std::string>& absent) {
  args.num_experts = read_num_experts(fields);
  const auto read = [&](const char* name, int64_t fallback) {
    const SizeKey& key = size_key(name);
    const auto found = fields.integer(name, key.least, key.most);
    if (!found && fields.has(name)) fields.wrong(name, fmt::format("a whole number from {} to {}", key.least, key.most));
    if (!found) absent.push_back(fmt::format("{} = {}", name, fallback));
    args.*key.member = found.value_or(fallback);
  };
  read("num_experts_per_tok", kDefaultExpertsPerToken);
  read("moe_intermediate_size", kDefaultMoeIntermediate);
  args.norm_topk_prob = fields.boolean("norm_topk_prob").value_or(false);  // case A8: absent is false
  args.decoder_sparse_step = fields.integer("decoder_sparse_step", 1, size_key("num_hidden_layers").most).value_or(1);
  args.mlp_only_layers = read_layers(fields);
  args.router_aux_loss_coef = fields.number("router_aux_loss_coef").value_or(args.router_aux_loss_coef);
  if (fields.boolean("output_router_logits").value_or(false)) {
    log::warning("{}: output_router_logits is true, with which Transformers adds the router's auxiliary loss; Trine adds it if "
                 "moe.aux_loss asks for it",
                 fields.where());
  }
}

void warn_of_experts(const ModelArgs& args, const std::string& where) {
  if (args.num_experts == 0) return;
  if (args.num_sparse_layers() == 0) {
    log::warning("{}: {} experts, but by decoder_sparse_step {} and mlp_only_layers [{}] none of the {} layers has any", where,
                 args.num_experts, args.decoder_sparse_step, fmt::join(args.mlp_only_layers, ", "), args.num_hidden_layers);
  }
  if (std::ranges::any_of(args.mlp_only_layers, [&](int64_t layer) { return layer >= args.num_hidden_layers; })) {
    log::warning("{}: mlp_only_layers [{}] names layers beyond the last, {}", where, fmt::join(args.mlp_only_layers, ", "),
                 args.num_hidden_layers - 1);
  }
}

void set_moe(nlohmann::ordered_json& json, const ModelArgs& args) {
  if (args.num_experts == 0) return;
  for (const SizeKey& key : kMoeSizeKeys) json[key.name] = args.*key.member;
  json["norm_topk_prob"] = args.norm_topk_prob;
  json["decoder_sparse_step"] = args.decoder_sparse_step;
  json["mlp_only_layers"] = args.mlp_only_layers;
  json["router_aux_loss_coef"] = args.router_aux_loss_coef;
  json["output_router_logits"] = false;
}

void update_moe(nlohmann::ordered_json& json, const ModelArgs& old, const ModelArgs& args) {
  for (const SizeKey& key : kMoeSizeKeys) {
    if (old.*key.member == args.*key.member) continue;
    const bool under_other_name = std::string_view(key.name) == kExperts && json.contains(kLocalExperts);
    if (under_other_name) json[kLocalExperts] = args.num_experts;
    if (!under_other_name || json.contains(key.name)) json[key.name] = args.*key.member;
  }
  if (old.norm_topk_prob != args.norm_topk_prob) json["norm_topk_prob"] = args.norm_topk_prob;
  if (old.decoder_sparse_step != args.decoder_sparse_step) json["decoder_sparse_step"] = args.decoder_sparse_step;
  if (old.mlp_only_layers != args.mlp_only_layers) json["mlp_only_layers"] = args.mlp_only_layers;
  if (old.router_aux_loss_coef != args.router_aux_loss_coef) json["router_aux_loss_coef"] = args.router_aux_loss_coef;
}

}  // namespace trine
