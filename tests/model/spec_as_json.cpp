// For tests in other languages: prints what Trine makes of a config.json.
//
//   model_spec_as_json CONFIG_JSON             names and shapes of the parameters, counts, rotary frequencies (as bits), as one object
//   model_spec_as_json --write FLAVOR DTYPE    the config.json that an export without a source has
//   model_spec_as_json --rewrite FILE DTYPE    the config.json of an export of FILE's model
#include <fmt/format.h>

#include <bit>
#include <nlohmann/json.hpp>
#include <string>

#include "model/model_args.h"

int main(int argc, char** argv) {
  using namespace trine;
  try {
    const std::string first = argc > 1 ? argv[1] : "";
    if (argc == 4 && first == "--write") {
      fmt::print("{}", write_config_json(flavor_args(argv[2]), "", argv[3]));
      return 0;
    }
    if (argc == 4 && first == "--rewrite") {
      fmt::print("{}", write_config_json(read_config_json(argv[2]), argv[2], argv[3]));
      return 0;
    }
    if (argc != 2) return 2;
    const ModelArgs args = read_config_json(first);
    const ModuleSpec spec = build_spec(args);
    nlohmann::json result;
    for (const NamedParameter& parameter : named_parameters(spec)) result["shapes"][parameter.name] = parameter.spec->shape;
    result["parameters"] = count(args).parameters;
    const RopeFrequencies frequencies = rope_frequencies(spec.child("model.layers.0.self_attn.rotary_emb"));
    for (const float value : frequencies.inv_freq) result["inv_freq_bits"].push_back(std::bit_cast<uint32_t>(value));
    result["attention_scaling"] = frequencies.attention_scaling;
    result["eos_token_ids"] = args.eos_token_ids;
    fmt::print("{}\n", result.dump());
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 2;
  }
}
