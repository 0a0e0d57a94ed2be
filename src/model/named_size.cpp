#include "model/named_size.h"

#include <cmath>
#include <regex>

namespace trine {
namespace {

// Published names round generously (Qwen3-0.6B has 596M, Llama-2-7B has 6.74G), and neighbours in a family are further apart.
constexpr double kTolerance = 0.2;

bool fits(double stated, int64_t parameters) { return std::abs(static_cast<double>(parameters) - stated) <= kTolerance * stated; }

bool is_number(const std::string& digits, int64_t value) { return digits == std::to_string(value); }

}  // namespace

std::string size_that_does_not_fit(std::string_view name, const NamedSizes& sizes) {
  constexpr size_t kLongestName = 1000;
  const std::string text(name.substr(0, kLongestName));
  const int64_t parameters = sizes.parameters;
  static const std::regex kReduced("(?:^|[-_ .])([0-9]+)[lL](?:([0-9]+)[eE])?(?=$|[-_ .])");
  if (std::smatch reduced; std::regex_search(text, reduced, kReduced)) {
    const bool fits = is_number(reduced[1], sizes.layers) && (!reduced[2].matched || is_number(reduced[2], sizes.experts));
    if (fits) return "";
    return reduced[1].str() + "L" + (reduced[2].matched ? reduced[2].str() + "E" : "");
  }
  // Group 1: a lone digit before the size, which makes "0_6b" 0.6b; group 2: the number; group 3: its unit.
  static const std::regex kSize("(?:^|[-_ .])(?:([0-9])_)?([0-9]+(?:\\.[0-9]+)?)([bBmM])(?=$|[-_ .])");
  for (std::sregex_iterator it(text.begin(), text.end(), kSize), end; it != end; ++it) {
    const std::smatch& match = *it;
    const double unit = match[3] == "b" || match[3] == "B" ? 1e9 : 1e6;
    if (fits(std::stod(match[2]) * unit, parameters)) continue;
    if (match[1].matched && fits(std::stod(match[1].str() + "." + match[2].str()) * unit, parameters)) continue;
    return match[2].str() + match[3].str();
  }
  return "";
}

}  // namespace trine
