#include "checkpoint/key_accounting.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/errors.h"
#include "checkpoint/expert_names.h"

namespace trine {
namespace {

constexpr size_t kExamples = 5;
constexpr std::string_view kFrequencies = ".rotary_emb.inv_freq";

void append(std::string& message, const char* title, const std::vector<std::string>& names, const std::vector<std::string>& others) {
  if (names.empty()) return;
  message += fmt::format("\n  {}:", title);
  size_t unnamed = names.size();
  const std::vector<ExpertGroup> groups = group_experts(names);
  for (size_t i = 0; i < std::min(groups.size(), kExamples); ++i) {
    const std::string near = nearest(names[groups[i].members[0]], others);
    message += fmt::format("{} {}{}", i ? "," : "", groups[i].text, near.empty() ? "" : fmt::format(" (there is {})", near));
    unnamed -= groups[i].members.size();
  }
  if (unnamed) message += fmt::format(", and {} more", unnamed);
}

bool any_ends_with(const std::vector<std::string>& names, std::initializer_list<std::string_view> endings) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return std::any_of(endings.begin(), endings.end(), [&](std::string_view ending) { return name.ends_with(ending); });
  });
}

// Feed-forwards ("model.layers.0.mlp") of which `names` has matrices: of experts, or of one without.
std::set<std::string_view> feed_forwards(const std::vector<std::string>& names, bool with_experts) {
  std::set<std::string_view> found;
  for (const std::string_view name : names) {
    if (const auto expert = parse_expert_name(name)) {
      if (with_experts) found.insert(expert->experts.substr(0, expert->experts.rfind('.')));
      continue;
    }
    for (const std::string_view ending : {".gate_proj.weight", ".up_proj.weight", ".down_proj.weight"}) {
      if (!with_experts && name.ends_with(ending)) found.insert(name.substr(0, name.size() - ending.size()));
    }
  }
  return found;
}

// Whether a layer is to have experts and has none in the file, or the reverse.
bool another_sparse_pattern(const KeyAccount& account) {
  const auto meet = [](const std::set<std::string_view>& a, const std::set<std::string_view>& b) {
    return std::any_of(a.begin(), a.end(), [&](std::string_view name) { return b.contains(name); });
  };
  return meet(feed_forwards(account.missing, true), feed_forwards(account.unexpected, false)) ||
         meet(feed_forwards(account.missing, false), feed_forwards(account.unexpected, true));
}

}  // namespace

KeyAccount account_keys(const WeightSource& source, const std::map<std::string, std::vector<int64_t>>& wanted, const TiedNames& tied) {
  KeyAccount account;
  account.wanted = static_cast<int64_t>(wanted.size());
  std::set<std::string> found;
  for (const StoredTensor& tensor : source.tensors()) {
    if (const auto place = wanted.find(tensor.name); place != wanted.end()) {
      found.insert(tensor.name);
      if (tensor.shape != place->second) {
        account.misshaped.push_back(fmt::format("{} (file [{}], model [{}])", tensor.name, fmt::join(tensor.shape, ", "),
                                                fmt::join(place->second, ", ")));
      }
    } else if (tensor.name.ends_with(kFrequencies)) {
      ++account.rotary_frequencies;
    } else if (tied.contains(tensor.name)) {
      account.tied.push_back(tensor.name);
    } else {
      account.unexpected.push_back(tensor.name);
    }
  }
  for (const auto& [name, shape] : wanted) {
    if (!found.contains(name)) account.missing.push_back(name);
  }
  return account;
}

std::string explain(const KeyAccount& account, const WeightSource& source) {
  std::string message =
      fmt::format("{} does not hold this model's weights: of {} wanted, {} are missing and {} have another shape; {} are unexpected.",
                  source.description(), account.wanted, account.missing.size(), account.misshaped.size(), account.unexpected.size());
  append(message, "missing", account.missing, account.unexpected);
  append(message, "unexpected", account.unexpected, account.missing);
  append(message, "other shape", account.misshaped, {});
  if (any_ends_with(account.missing, {"lm_head.weight"})) {
    message += "\n  There is no output head. If it is tied to the embedding, config.json must say \"tie_word_embeddings\": true.";
  }
  if (any_ends_with(account.unexpected, {".bias"})) {
    message += "\n  The model that config.json describes has no biases; a file with biases is of another architecture.";
  }
  if (another_sparse_pattern(account)) {
    message += "\n  Other layers have experts than config.json says; its decoder_sparse_step and mlp_only_layers decide which do.";
  }
  if (any_ends_with(account.unexpected, {"_scale", "_scale_inv", ".qweight"})) {
    message += "\n  These are quantised weights; Trine loads float32, bfloat16 and float16.";
  }
  return message;
}

std::string first_few(const std::vector<std::string>& names) {
  std::vector<std::string> first;
  size_t unnamed = names.size();
  for (const ExpertGroup& group : group_experts(names)) {
    if (first.size() == kExamples) break;
    first.push_back(group.text);
    unnamed -= group.members.size();
  }
  return fmt::format("{}{}", fmt::join(first, ", "), unnamed ? fmt::format(" and {} more", unnamed) : "");
}

}  // namespace trine
