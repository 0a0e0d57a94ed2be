#include "base/errors.h"

#include <algorithm>
#include <cctype>

namespace trine {
namespace {

std::string folded(std::string_view name) {
  std::string result;
  for (char c : name) result += c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

// Optimal string alignment distance: insert, delete, substitute, swap neighbours, each at cost 1.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitute = cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, substitute});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

}  // namespace

std::string nearest(std::string_view name, std::span<const std::string> candidates) {
  constexpr size_t kLongestName = 200;  // longer input is no typing mistake, and the distance is quadratic
  if (name.empty() || name.size() > kLongestName) return "";
  const std::string wanted = folded(name);
  std::string best;
  size_t best_distance = std::max<size_t>(2, wanted.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > kLongestName) continue;
    const size_t distance = edit_distance(wanted, folded(candidate));
    if (distance < best_distance && distance < std::max(wanted.size(), candidate.size())) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string suggest(std::string_view name, std::span<const std::string> candidates, size_t limit) {
  if (const std::string near = nearest(name, candidates); !near.empty()) return fmt::format(" Did you mean \"{}\"?", near);
  if (candidates.empty()) return "";
  std::string list;
  for (size_t i = 0; i < std::min(limit, candidates.size()); ++i) list += (i ? ", " : "") + candidates[i];
  if (candidates.size() > limit) list += fmt::format(", and {} more", candidates.size() - limit);
  return fmt::format(" Known: {}.", list);
}

}  // namespace trine
