#include "checkpoint/expert_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

namespace trine {
namespace {

constexpr std::string_view kExperts = ".experts.";
constexpr size_t kMostRanges = 6;  // shown of a ragged set of numbers

// {0, 1, 2, 5} -> "{0..2,5}".
std::string as_ranges(std::vector<int64_t> numbers) {
  std::sort(numbers.begin(), numbers.end());
  std::string text = "{";
  size_t ranges = 0;
  for (size_t i = 0; i < numbers.size(); ++ranges) {
    size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] - numbers[last] <= 1) ++last;
    if (ranges == kMostRanges) {
      text += fmt::format(", {} more", numbers.size() - i);
      break;
    }
    text += ranges ? "," : "";
    text += numbers[last] == numbers[i] ? fmt::format("{}", numbers[i]) : fmt::format("{}..{}", numbers[i], numbers[last]);
    i = last + 1;
  }
  return text + "}";
}

}  // namespace

std::optional<ExpertName> parse_expert_name(std::string_view text) {
  const size_t place = text.find(kExperts);
  if (place == std::string_view::npos) return std::nullopt;
  const std::string_view after = text.substr(place + kExperts.size());
  ExpertName name{.experts = text.substr(0, place + kExperts.size() - 1)};
  const auto [end, error] = std::from_chars(after.data(), after.data() + after.size(), name.expert);
  if (error != std::errc() || after[0] == '-' || end == after.data() + after.size() || *end != '.') return std::nullopt;
  const auto digits = static_cast<size_t>(end - after.data());
  if (digits > 1 && after[0] == '0') return std::nullopt;  // "experts.07." is a name that nobody writes, and not that of expert 7
  name.rest = after.substr(digits + 1);
  return name;
}

std::vector<ExpertGroup> group_experts(const std::vector<std::string>& texts) {
  std::vector<ExpertGroup> groups;
  std::vector<std::vector<int64_t>> numbers;  // beside groups
  std::map<std::pair<std::string_view, std::string_view>, size_t> known;
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto name = parse_expert_name(texts[i]);
    size_t group = groups.size();
    if (name) group = known.try_emplace({name->experts, name->rest}, group).first->second;
    if (group == groups.size()) {
      groups.push_back({texts[i], {}});
      numbers.emplace_back();
    }
    groups[group].members.push_back(i);
    if (name) numbers[group].push_back(name->expert);
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    if (groups[i].members.size() == 1) continue;
    const ExpertName name = *parse_expert_name(texts[groups[i].members[0]]);
    groups[i].text = fmt::format("{}.{}.{}", name.experts, as_ranges(numbers[i]), name.rest);
  }
  return groups;
}

}  // namespace trine
