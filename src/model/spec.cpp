#include "model/spec.h"

#include <fmt/format.h>

#include <stdexcept>

namespace trine {
namespace {

// A wrong name or type here is a mistake in our code, not in a user's file: what users name goes through patterns and checks.
template <class T>
const T& option_as(const ModuleSpec& node, const std::string& name, const char* type) {
  const auto it = node.options.find(name);
  if (it == node.options.end()) throw std::logic_error(fmt::format("node \"{}\" has no option {}", node.fqn, name));
  const T* value = std::get_if<T>(&it->second);
  if (!value) throw std::logic_error(fmt::format("option {} of node \"{}\" is not of type {}", name, node.fqn, type));
  return *value;
}

void collect(const ModuleSpec& node, std::vector<NamedParameter>& result) {
  for (const ParameterSpec& parameter : node.parameters) {
    result.push_back({node.fqn.empty() ? parameter.name : node.fqn + "." + parameter.name, &parameter});
  }
  for (const ModuleSpec& child : node.children) collect(child, result);
}

}  // namespace

int64_t ParameterSpec::numel() const {
  int64_t product = 1;
  for (const int64_t size : shape) product *= size;
  return product;
}

const char* kind_name(ModuleKind kind) {
  switch (kind) {
    case ModuleKind::kCausalLm: return "causal_lm";
    case ModuleKind::kDecoder: return "decoder";
    case ModuleKind::kEmbedding: return "embedding";
    case ModuleKind::kDecoderLayer: return "decoder_layer";
    case ModuleKind::kAttention: return "attention";
    case ModuleKind::kInnerAttention: return "inner_attention";
    case ModuleKind::kMlp: return "mlp";
    case ModuleKind::kActivation: return "activation";
    case ModuleKind::kLinear: return "linear";
    case ModuleKind::kRmsNorm: return "rms_norm";
    case ModuleKind::kRotary: return "rotary";
    case ModuleKind::kLmHead: return "lm_head";
    case ModuleKind::kMoeBlock: return "moe_block";
    case ModuleKind::kRouter: return "router";
    case ModuleKind::kExperts: return "experts";
  }
  throw std::logic_error("kind_name: not a kind");
}

const ModuleSpec& ModuleSpec::child(const std::string& local_name) const {
  const std::string wanted = fqn.empty() ? local_name : fqn + "." + local_name;
  for (const ModuleSpec& candidate : children) {
    if (candidate.fqn == wanted) return candidate;
    const std::string prefix = candidate.fqn + ".";
    if (wanted.starts_with(prefix)) return candidate.child(wanted.substr(prefix.size()));
  }
  throw std::logic_error(fmt::format("node \"{}\" has no child \"{}\"", fqn, local_name));
}

int64_t ModuleSpec::int_option(const std::string& name) const { return option_as<int64_t>(*this, name, "int64_t"); }
double ModuleSpec::double_option(const std::string& name) const { return option_as<double>(*this, name, "double"); }
bool ModuleSpec::bool_option(const std::string& name) const { return option_as<bool>(*this, name, "bool"); }
const std::string& ModuleSpec::string_option(const std::string& name) const {
  return option_as<std::string>(*this, name, "string");
}

void visit(const ModuleSpec& root, const std::function<void(const ModuleSpec&)>& action) {
  action(root);
  for (const ModuleSpec& child : root.children) visit(child, action);
}

std::vector<NamedParameter> named_parameters(const ModuleSpec& root) {
  std::vector<NamedParameter> result;
  collect(root, result);
  return result;
}

}  // namespace trine
