#include "model/overrides.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>

#include "base/errors.h"

namespace trine {
namespace {

const Override* find_override(std::string_view name) {
  const auto found = std::ranges::find(override_registry(), name, &Override::name);
  return found == override_registry().end() ? nullptr : &*found;
}

std::string trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(' '), last = text.find_last_not_of(' ');
  return first == std::string_view::npos ? "" : std::string(text.substr(first, last - first + 1));
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find(separator, start), text.size());
    parts.push_back(trimmed(text.substr(start, end - start)));
    start = end + 1;
  }
  return parts;
}

// The inside of the braces: key=value, key=value.
void read_parameters(std::string_view text, OverrideEntry& entry) {
  for (const std::string& assignment : split(text, ',')) {
    const size_t equals = assignment.find('=');
    if (equals == std::string::npos) {
      throw UserError("override.imports: \"{}\": \"{}\" is not of the form name=value.", entry.text, assignment);
    }
    const std::string name = trimmed(assignment.substr(0, equals));
    std::string value = trimmed(assignment.substr(equals + 1));
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"') value = value.substr(1, value.size() - 2);
    const auto& known = entry.override->parameters;
    if (!known.contains(name)) {
      throw UserError("override.imports: \"{}\": {} has no parameter {}.{}", entry.text, entry.override->name, name,
                      suggest(name, std::vector<std::string>(known.begin(), known.end())));
    }
    if (!entry.op.empty()) throw UserError("override.imports: \"{}\": op is given twice.", entry.text);
    const size_t colons = value.find("::");
    if (colons == 0 || colons == std::string::npos || colons + 2 == value.size()) {
      throw UserError("override.imports: \"{}\": op = {} is no name of a registered op; they are written namespace::name.", entry.text, value);
    }
    entry.op = value;
  }
}

ModuleSpec* find_node(ModuleSpec& root, const std::string& fqn) {
  if (root.fqn == fqn) return &root;
  for (ModuleSpec& child : root.children) {
    if (fqn == child.fqn || fqn.starts_with(child.fqn + ".")) return find_node(child, fqn);
  }
  return nullptr;
}

std::string parent_of(const std::string& fqn) {
  const size_t dot = fqn.rfind('.');
  return dot == std::string::npos ? "" : fqn.substr(0, dot);
}

std::string option_text(const OptionValue& value) {
  return std::visit([](const auto& v) { return fmt::format("{}", v); }, value);
}

// Why the override cannot take this node; empty if it can.
std::string refusal(ModuleSpec& root, const ModuleSpec& node, const Override& override) {
  for (const auto& [name, value] : node.options) {
    if (override.honored_options.contains(name)) continue;
    const auto other = override.other_options.find(name);
    if (other != override.other_options.end() && other->second == value) continue;
    return fmt::format("{} has {} = {}, which {} does not honour", node.fqn, name, option_text(value), override.name);
  }
  for (const std::string& sibling : override.siblings) {
    if (!find_node(root, parent_of(node.fqn) + "." + sibling)) {
      return fmt::format("{} has no {} beside it, which {} computes as well", node.fqn, sibling, override.name);
    }
  }
  return "";
}

// An entry's wish to compute one node, and the siblings that come with it.
struct Claim {
  const Override* override;
  const OverrideEntry* entry;  // null: the fused list's
  ModuleSpec* node;
  std::vector<std::string> fqns;  // the node's, then the siblings'
};

Claim make_claim(const Override& override, const OverrideEntry* entry, ModuleSpec& node) {
  Claim claim{&override, entry, &node, {node.fqn}};
  for (const std::string& sibling : override.siblings) claim.fqns.push_back(parent_of(node.fqn) + "." + sibling);
  return claim;
}

bool matches(const OverrideEntry& entry, const std::string& fqn) {
  return entry.patterns.empty() ||
         std::ranges::any_of(entry.patterns, [&](const std::string& pattern) { return ::fnmatch(pattern.c_str(), fqn.c_str(), 0) == 0; });
}

// Nodes of a tree taken by claims. A claim meets another on the same node and on ancestors and descendants.
class ClaimedNodes {
 public:
  const Claim* meeting(const std::string& fqn) const {
    if (const auto here = by_fqn_.find(fqn); here != by_fqn_.end()) return here->second;
    for (std::string above = parent_of(fqn); !above.empty(); above = parent_of(above)) {
      if (const auto found = by_fqn_.find(above); found != by_fqn_.end()) return found->second;
    }
    const auto below = by_fqn_.upper_bound(fqn + ".");
    return below != by_fqn_.end() && below->first.starts_with(fqn + ".") ? below->second : nullptr;
  }
  const Claim* meeting(const Claim& claim) const {
    for (const std::string& fqn : claim.fqns) {
      if (const Claim* other = meeting(fqn)) return other;
    }
    return nullptr;
  }
  void add(const Claim& claim) {
    for (const std::string& fqn : claim.fqns) by_fqn_.emplace(fqn, &claim);
  }

 private:
  std::map<std::string, const Claim*> by_fqn_;
};

class Settlement {
 public:
  explicit Settlement(ModuleSpec& root) : root_(root) {
    visit(root, [this](const ModuleSpec& node) { nodes_.push_back(const_cast<ModuleSpec*>(&node)); });
  }

  void claim_entries(const std::vector<OverrideEntry>& entries, OverridePlan& plan) {
    for (const OverrideEntry& entry : entries) {
      size_t num_matched = 0;
      for (ModuleSpec* node : nodes_) {
        if (node->kind != entry.override->target || !matches(entry, node->fqn)) continue;
        ++num_matched;
        if (const std::string why = refusal(root_, *node, *entry.override); !why.empty()) {
          throw UserError("override.imports: \"{}\": {}. Narrow its pattern, or leave it out.", entry.text, why);
        }
        claims_.push_back(std::make_unique<Claim>(make_claim(*entry.override, &entry, *node)));
        const Claim& claim = *claims_.back();
        if (const Claim* other = claimed_.meeting(claim)) throw_conflict(*other, claim);
        claimed_.add(claim);
      }
      if (num_matched == 0) plan.warnings.push_back(nothing_matched(entry));
    }
  }

  void claim_list(const std::vector<std::string>& list, OverridePlan& plan) {
    std::set<std::string> noted;
    for (const std::string& name : list) {
      const Override& override = *find_override(name);
      for (ModuleSpec* node : nodes_) {
        if (node->kind != override.target || !refusal(root_, *node, override).empty()) continue;
        auto claim = std::make_unique<Claim>(make_claim(override, nullptr, *node));
        if (const Claim* other = claimed_.meeting(*claim)) {
          if (other->entry && noted.insert(name + other->entry->text).second) {
            plan.notes.push_back(fmt::format("\"{}\" takes the place of {} of model.kernels = fused where they meet", other->entry->text, name));
          }
          continue;
        }
        claimed_.add(*claim);
        claims_.push_back(std::move(claim));
      }
    }
  }

  // Changes the nodes, in tree order.
  void apply(OverridePlan& plan) {
    std::map<const ModuleSpec*, const Claim*> by_node;
    for (const auto& claim : claims_) by_node.emplace(claim->node, claim.get());
    for (ModuleSpec* node : nodes_) {
      const auto found = by_node.find(node);
      if (found == by_node.end()) continue;
      const Claim& claim = *found->second;
      NodeImplementation implementation{claim.override->name, claim.entry ? claim.entry->op : ""};
      const std::string shown = implementation.op.empty() ? claim.override->op : implementation.op;
      plan.replacements.push_back({node->fqn, node->implementation.name, shown, claim.override->name, claim.entry == nullptr});
      for (const std::string& fqn : claim.fqns) find_node(root_, fqn)->implementation = implementation;
    }
  }

 private:
  [[noreturn]] static void throw_conflict(const Claim& first, const Claim& second) {
    for (const std::string& fqn : second.fqns) {
      if (std::ranges::find(first.fqns, fqn) != first.fqns.end()) {
        throw UserError("override.imports: \"{}\" and \"{}\" both claim {}. Give each a pattern (NAME@PATTERN) so that no node is claimed "
                        "twice.", first.entry->text, second.entry->text, fqn);
      }
    }
    throw UserError("override.imports: \"{}\" claims {} and \"{}\" claims {}, which lies inside the other. Give each a pattern "
                    "(NAME@PATTERN) that leaves the other's out.", first.entry->text, first.fqns[0], second.entry->text, second.fqns[0]);
  }

  std::string nothing_matched(const OverrideEntry& entry) const {
    std::string example;
    for (const ModuleSpec* node : nodes_) {
      if (node->kind == entry.override->target) example = node->fqn;
    }
    if (example.empty()) {
      return fmt::format("override \"{}\" replaces nothing: this model has no {} node", entry.text, kind_name(entry.override->target));
    }
    return fmt::format("override \"{}\" replaces nothing: its pattern matches no {} node; they are named like {}", entry.text,
                       kind_name(entry.override->target), example);
  }

  ModuleSpec& root_;
  std::vector<ModuleSpec*> nodes_;
  std::vector<std::unique_ptr<Claim>> claims_;
  ClaimedNodes claimed_;
};

}  // namespace

OverrideEntry parse_override(const std::string& text) {
  OverrideEntry entry{.text = text};
  std::string_view rest = text;
  std::string_view parameters;
  if (const size_t brace = rest.find('{'); brace != std::string_view::npos) {
    if (!rest.ends_with('}')) throw UserError("override.imports: \"{}\": the {{ has no }} at the end.", text);
    parameters = rest.substr(brace + 1, rest.size() - brace - 2);
    rest = rest.substr(0, brace);
  }
  const size_t at = rest.find('@');
  const std::string name = trimmed(rest.substr(0, at));
  entry.override = find_override(name);
  if (!entry.override) {
    std::vector<std::string> known;
    for (const Override& each : override_registry()) known.push_back(each.name);
    throw UserError("override.imports: \"{}\": there is no override \"{}\".{} trine overrides --list shows them.", text, name, suggest(name, known));
  }
  if (at != std::string_view::npos) {
    entry.patterns = split(rest.substr(at + 1), '|');
    if (std::ranges::count(entry.patterns, "") > 0) throw UserError("override.imports: \"{}\": a pattern is empty.", text);
  }
  if (!parameters.empty()) read_parameters(parameters, entry);
  return entry;
}

int64_t OverridePlan::num_replaced(std::string_view override_name) const {
  return std::ranges::count(replacements, override_name, &Replacement::override_name);
}

OverridePlan apply_overrides(ModuleSpec& spec, const std::string& kernels, const std::vector<std::string>& imports) {
  std::vector<OverrideEntry> entries;
  for (const std::string& text : imports) entries.push_back(parse_override(text));
  OverridePlan plan;
  Settlement settlement(spec);
  settlement.claim_entries(entries, plan);
  if (kernels == "fused") settlement.claim_list(fused_overrides(), plan);
  settlement.apply(plan);
  return plan;
}

std::vector<std::string> describe_overrides(const OverridePlan& plan, bool entries_only) {
  std::vector<std::string> lines = plan.notes;
  std::vector<std::pair<std::string, int64_t>> from_list;
  int64_t num_entries = 0;
  for (const Replacement& one : plan.replacements) {
    if (!one.from_list) ++num_entries;
    if (entries_only && one.from_list) {
      auto counted = std::ranges::find(from_list, one.override_name, &std::pair<std::string, int64_t>::first);
      if (counted == from_list.end()) counted = from_list.insert(from_list.end(), {one.override_name, 0});
      ++counted->second;
      continue;
    }
    lines.push_back(fmt::format("[Override] {}: {} {} -> {}", one.override_name, one.fqn, one.old_implementation, one.new_implementation));
  }
  if (!from_list.empty()) {
    std::string counts;
    for (const auto& [name, count] : from_list) counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", count, name);
    lines.push_back("model.kernels = fused: " + counts);
  }
  const int64_t num_shown = entries_only ? num_entries : static_cast<int64_t>(plan.replacements.size());
  if (num_shown > 0) lines.push_back(fmt::format("Applied {} override(s)", num_shown));
  return lines;
}

}  // namespace trine
