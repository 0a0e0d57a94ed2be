// Names of experts in lists: a layer of 128 experts has 384 matrices, and a reader wants three lines of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trine {

// The parts of a text that names one expert: "model.layers.0.mlp.experts.7.gate_proj.weight" is {"model.layers.0.mlp.experts", 7,
// "gate_proj.weight"}. Unset if there is no ".experts.NUMBER." in it.
struct ExpertName {
  std::string_view experts;
  int64_t expert = 0;
  std::string_view rest;
};
std::optional<ExpertName> parse_expert_name(std::string_view text);

// Texts that differ in nothing but the number of an expert, as one text: "model.layers.0.mlp.experts.{0..5,7}.gate_proj.weight". What
// follows the name (such as a shape) keeps texts apart.
struct ExpertGroup {
  std::string text;
  std::vector<size_t> members;  // positions among the texts, in their order
};
// Every text is in one group; one that names no expert is a group of its own. Groups come in the order of their first members.
std::vector<ExpertGroup> group_experts(const std::vector<std::string>& texts);

}  // namespace trine
