// Replacing how nodes of the spec tree are computed: named, matched by pattern, all claims settled before anything changes.
//
// An override never touches a parameter, a name or a shape, so checkpoints are the same with and without it.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "model/spec.h"

namespace trine {

// One override that exists: what it replaces, and under which conditions.
struct Override {
  std::string name;         // in recipes and logs: "rope"
  ModuleKind target;        // nodes of this kind are claimed
  std::string description;  // one line
  std::string op;           // our op behind it, "trine::rope"
  std::string signature;    // of an op that may be bound in its place, as torch writes schemas, without the name
  std::set<std::string> honored_options;             // options of the node that the implementation reads
  std::map<std::string, OptionValue> other_options;  // the others' defaults; a node with another value is refused
  std::vector<std::string> siblings;                 // nodes beside the target that it computes as well: "q_norm"
  std::set<std::string> parameters;                  // what an entry may give in braces
};

// Every override, by name.
const std::vector<Override>& override_registry();

// One entry of override.imports: NAME, NAME@PATTERN|PATTERN, NAME@PATTERN{op=namespace::name}. A pattern is a shell pattern over the
// full names of nodes (`*`, `?`, `[0-1]`); without one every node of the target kind is meant.
struct OverrideEntry {
  std::string text;  // as written
  const Override* override = nullptr;
  std::vector<std::string> patterns;
  std::string op;  // bound in place of our own; empty: none
};

// Throws UserError for an unknown override or parameter (naming the nearest), or a malformed entry.
OverrideEntry parse_override(const std::string& text);

// The list that model.kernels = fused stands for. Of two that want one node the earlier one gets it.
const std::vector<std::string>& fused_overrides();

// What was done to one node.
struct Replacement {
  std::string fqn, old_implementation, new_implementation, override_name;
  bool from_list = false;  // of model.kernels = fused, not of an entry
};

struct OverridePlan {
  std::vector<Replacement> replacements;  // in tree order
  std::vector<std::string> warnings;      // patterns that match nothing
  std::vector<std::string> notes;         // places where an entry takes the fused list's place

  int64_t num_replaced(std::string_view override_name) const;
};

// Settles `imports` over `kernels` (reference | fused) and changes the implementations in `spec`. An entry takes the place of the list's
// on the nodes it matches, their ancestors, descendants and siblings. Throws UserError, and leaves `spec` alone, if two entries claim one
// node, or a node and its ancestor, or if a claimed node has an option off its default that the override does not honour.
OverridePlan apply_overrides(ModuleSpec& spec, const std::string& kernels, const std::vector<std::string>& imports);

// The log's lines: "[Override] NAME: FQN old -> new" for each replacement, and the count. With `entries_only`, those of the fused list
// are one line that counts them by name.
std::vector<std::string> describe_overrides(const OverridePlan& plan, bool entries_only);

}  // namespace trine
