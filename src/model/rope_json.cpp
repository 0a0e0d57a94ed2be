#include "model/rope_json.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "base/errors.h"
#include "base/log.h"
#include "model/size_keys.h"

namespace trine {
namespace {

// The keys that each supported type reads, apart from rope_theta, rope_type and partial_rotary_factor.
const std::map<std::string, std::vector<std::string>> kKeysOfType = {
    {"default", {}},
    {"linear", {"factor"}},
    {"yarn",
     {"factor", "original_max_position_embeddings", "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"}},
    {"llama3", {"factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"}},
};

// One value that may stand in two places, or under two names.
template <class T>
std::optional<T> only_one(const std::string& where, const std::string& first_name, std::optional<T> first, const std::string& second_name,
                          std::optional<T> second) {
  if (first && second && *first != *second) {
    throw UserError("{}: {} is {} and {} is {}; one of them must go", where, first_name, *first, second_name, *second);
  }
  return first ? first : second;
}

std::string rope_type_of(JsonFields& block) {
  const auto given = only_one(block.where(), "\"rope_type\"", block.string("rope_type"), "\"type\"", block.string("type"));
  const std::string type = given.value_or("default");
  if (!kKeysOfType.contains(type)) {
    throw UserError("{}: rope_type \"{}\" is not supported; supported: default, linear, yarn, llama3", block.where(), type);
  }
  return type;
}

void check_keys(JsonFields& block, const std::string& type) {
  std::vector<std::string> known = kKeysOfType.at(type);
  known.insert(known.end(), {"rope_theta", "rope_type", "partial_rotary_factor"});
  std::vector<std::string> without_effect;
  for (const std::string& key : block.unread()) {
    const bool of_another_type =
        std::ranges::any_of(kKeysOfType, [&](const auto& entry) { return std::ranges::count(entry.second, key) > 0; });
    if (!of_another_type) {
      throw UserError("{}: unknown key \"{}\", which nothing would read.{}", block.where(), key, suggest(key, known));
    }
    without_effect.push_back(key);
  }
  if (!without_effect.empty()) {
    log::warning("{}: no effect with rope_type \"{}\": {}", block.where(), type, fmt::join(without_effect, ", "));
  }
}

void require_whole_rotation(JsonFields& fields) {
  if (fields.number("partial_rotary_factor").value_or(1) != 1) fields.wrong("partial_rotary_factor", "1 (all of each head is rotated)");
}

double factor_of(JsonFields& block, const RopeArgs& rope, int64_t max_position_embeddings) {
  std::optional<double> factor = block.number("factor");
  // A yarn block may leave the factor to the two lengths.
  if (!factor && rope.type == "yarn") {
    factor = static_cast<double>(max_position_embeddings) / static_cast<double>(rope.original_max_position_embeddings);
  }
  if (!factor) throw UserError("{}: rope_type \"{}\" needs \"factor\", a number from 1", block.where(), rope.type);
  if (*factor < 1 || *factor > 1e6) throw UserError("{}: factor is {}; expected a number from 1 to 1e6", block.where(), *factor);
  return *factor;
}

// Zero stands for the default in Transformers, as an absent key does.
double or_default(std::optional<double> value, double fallback) { return value.value_or(0) == 0 ? fallback : *value; }

void read_yarn(JsonFields& block, RopeArgs& rope) {
  rope.beta_fast = or_default(block.number("beta_fast"), rope.beta_fast);
  rope.beta_slow = or_default(block.number("beta_slow"), rope.beta_slow);
  rope.attention_factor = block.number("attention_factor");
  rope.mscale = block.number("mscale");
  rope.mscale_all_dim = block.number("mscale_all_dim");
  rope.truncate = block.boolean("truncate").value_or(true);
  if (rope.beta_slow <= 0 || rope.beta_fast < rope.beta_slow) {
    throw UserError("{}: beta_fast is {} and beta_slow is {}; expected beta_fast >= beta_slow > 0", block.where(), rope.beta_fast,
                    rope.beta_slow);
  }
  if (rope.attention_factor && *rope.attention_factor <= 0) block.wrong("attention_factor", "a number above 0");
}

void read_llama3(JsonFields& block, RopeArgs& rope) {
  const auto low = block.number("low_freq_factor"), high = block.number("high_freq_factor");
  if (!low || !high || *low <= 0 || *high <= *low) {
    throw UserError("{}: rope_type \"llama3\" needs low_freq_factor above 0 and high_freq_factor above that", block.where());
  }
  rope.low_freq_factor = *low;
  rope.high_freq_factor = *high;
}

}  // namespace

RopeArgs read_rope(JsonFields& fields, int64_t max_position_embeddings) {
  const nlohmann::json* parameters = fields.value("rope_parameters");
  const nlohmann::json* scaling = fields.value("rope_scaling");
  if (parameters && scaling && *parameters != *scaling) {
    throw UserError("{}: rope_parameters and its older name rope_scaling both stand there and differ; one of them must go", fields.where());
  }
  const nlohmann::json empty = nlohmann::json::object();
  JsonFields block(parameters ? *parameters : scaling ? *scaling : empty,
                   fmt::format("{}, {}", fields.where(), parameters || !scaling ? "rope_parameters" : "rope_scaling"));

  RopeArgs rope;
  const auto theta = only_one(fields.where(), "\"rope_theta\"", fields.number("rope_theta"), "the one inside the rope block",
                              block.number("rope_theta"));
  if (!theta) {
    throw UserError("{}: no rope_theta, neither at the top level nor inside rope_parameters. A wrong base spoils every position; "
                    "give the one that the model was trained with (1000000 for Qwen3, 10000 for the oldest Llama files)", fields.where());
  }
  rope.theta = *theta;
  rope.type = rope_type_of(block);
  require_whole_rotation(fields);
  require_whole_rotation(block);

  const auto outer_original = fields.integer("original_max_position_embeddings", 1, kMostPositions);
  if (rope.type == "yarn" || rope.type == "llama3") {
    rope.original_max_position_embeddings =
        only_one(fields.where(), "\"original_max_position_embeddings\"", outer_original, "the one inside the rope block",
                 block.integer("original_max_position_embeddings", 1, kMostPositions))
            .value_or(max_position_embeddings);
  }
  if (rope.type != "default") rope.factor = factor_of(block, rope, max_position_embeddings);
  if (rope.type == "yarn") read_yarn(block, rope);
  if (rope.type == "llama3") read_llama3(block, rope);
  check_keys(block, rope.type);
  return rope;
}

nlohmann::ordered_json rope_parameters_json(const RopeArgs& rope) {
  nlohmann::ordered_json block = {{"rope_type", rope.type}, {"rope_theta", rope.theta}};
  if (rope.type != "default") block["factor"] = rope.factor;
  if (rope.type == "yarn" || rope.type == "llama3") block["original_max_position_embeddings"] = rope.original_max_position_embeddings;
  if (rope.type == "yarn") {
    block["beta_fast"] = rope.beta_fast;
    block["beta_slow"] = rope.beta_slow;
    if (rope.attention_factor) block["attention_factor"] = *rope.attention_factor;
    if (rope.mscale) block["mscale"] = *rope.mscale;
    if (rope.mscale_all_dim) block["mscale_all_dim"] = *rope.mscale_all_dim;
    if (!rope.truncate) block["truncate"] = false;
  }
  if (rope.type == "llama3") {
    block["low_freq_factor"] = rope.low_freq_factor;
    block["high_freq_factor"] = rope.high_freq_factor;
  }
  return block;
}

}  // namespace trine
