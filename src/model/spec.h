// A model as a tree of module specs, before any tensor exists.
//
// Everything that must agree about a model reads this tree: parameter counts, FLOPs, memory plans, checkpoint names, initial values,
// what a run prints at its start, and (by name pattern) which implementation a node gets. Names are those of published Hugging Face
// files. Building the tree (segments.h) gives modules.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace trine {

// How a parameter's initial value is drawn (init.h).
struct InitSpec {
  enum class Kind { kNormal, kOnes };
  Kind kind = Kind::kNormal;
  double std = 0.02;
};

struct ParameterSpec {
  std::string name;  // local to its node: "weight"
  std::vector<int64_t> shape;
  InitSpec init;

  int64_t numel() const;
};

using OptionValue = std::variant<bool, int64_t, double, std::string>;

// kDecoder is the stack that files call "model": embedding, layers, final norm. kInnerAttention is what attention does with q, k and v
// once they are rotated; kActivation is a feed-forward's gate. Neither has parameters: they are nodes so that overrides can reach them.
// kMoeBlock is the `mlp` of a layer with experts: a kRouter and the kExperts.
enum class ModuleKind {
  kCausalLm, kDecoder, kEmbedding, kDecoderLayer, kAttention, kInnerAttention, kMlp, kActivation, kLinear, kRmsNorm, kRotary, kLmHead,
  kMoeBlock, kRouter, kExperts
};
const char* kind_name(ModuleKind kind);

// Parameters first_parameter .. first_parameter + num_parameters - 1 of a node lie in memory one behind the other, without padding, as one
// tensor of `shape`. Files never see it: it has no name there.
struct StackSpec {
  std::string name;
  std::vector<int64_t> shape;
  size_t first_parameter = 0, num_parameters = 0;
};

// How a node is computed. Overrides (overrides.h) change this and nothing else about a model.
struct NodeImplementation {
  std::string name = "reference";  // or the override's
  std::string op;                  // a registered op "namespace::name" that takes the place of our own; empty: none

  bool is_reference() const { return name == "reference"; }
};

struct ModuleSpec {
  std::string fqn;  // "model.layers.0.self_attn.q_proj"; the root's is empty
  ModuleKind kind = ModuleKind::kCausalLm;
  std::map<std::string, OptionValue> options;  // typed settings of the node, such as eps or num_heads
  std::vector<ParameterSpec> parameters;
  std::vector<ModuleSpec> children;
  std::vector<StackSpec> stacks;
  NodeImplementation implementation;

  // The node named `local_name` below this one: "model.layers.0" of the root, "q_proj" of an attention node; throws if absent.
  const ModuleSpec& child(const std::string& local_name) const;
  int64_t int_option(const std::string& name) const;
  double double_option(const std::string& name) const;
  bool bool_option(const std::string& name) const;
  const std::string& string_option(const std::string& name) const;
};

// Visits the node and everything below it, parents first, children in order.
void visit(const ModuleSpec& root, const std::function<void(const ModuleSpec&)>& action);

// A parameter with its full name, in tree order. A tied head has no parameter of its own: the embedding's is listed once.
struct NamedParameter {
  std::string name;  // "model.layers.0.self_attn.q_proj.weight"
  const ParameterSpec* spec;
};
std::vector<NamedParameter> named_parameters(const ModuleSpec& root);

}  // namespace trine
