// The keys of a config.json that make a model a mixture of experts: read, and written.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/json_fields.h"
#include "model/model_args.h"

namespace trine {

// Reads the keys of Qwen3MoeConfig. The number of experts is `num_experts`, in files of Transformers 5 `num_local_experts`; both and
// different, or neither, throws UserError (case A9). For other absent sizes the class default stands in and is added to `absent`.
void read_moe(JsonFields& fields, ModelArgs& args, std::vector<std::string>& absent);

// Warns of a mixture without a sparse layer, and of mlp_only_layers beyond the last layer. `where` opens the message.
void warn_of_experts(const ModelArgs& args, const std::string& where);

// All of the keys, for a complete file.
void set_moe(nlohmann::ordered_json& json, const ModelArgs& args);

// Sets those whose meaning in `json`, as read into `old`, differs from `args`; the number of experts under the names the file has.
void update_moe(nlohmann::ordered_json& json, const ModelArgs& old, const ModelArgs& args);

}  // namespace trine
