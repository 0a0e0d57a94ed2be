// Which rows of a mixture of experts belong to whom: the tokens' choices sorted by expert, so that each expert sees its tokens as one
// matrix.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace trine {

// Every expert's rows begin at a multiple of this, and rows up to the next multiple are padding. The generated code of a product
// depends on its sizes; without this, a step would meet (and torch compile and keep) new ones for ever.
constexpr int64_t kExpertRowMultiple = 8;

// E experts, T tokens with k choices each. Choice t·k + j is token t's j-th.
struct ExpertOrder {
  std::vector<int64_t> begin;    // [E + 1]: expert e has rows begin[e] .. begin[e + 1], padding included
  std::vector<int64_t> count;    // [E]: how many of them are choices; the rest is padding
  std::vector<int64_t> choice;   // [begin[E]]: the choice in a row, in ascending order within an expert; -1 for padding
  std::vector<int64_t> row;      // [T·k]: the row of a choice
};

// experts: T·k ids in 0 .. num_experts, in any order.
ExpertOrder order_by_expert(const int64_t* experts, int64_t num_choices, int64_t num_experts);

// The largest begin[E] there can be, which depends on sizes only: at most one padded end for each expert that can have a choice.
template <class Count>
Count most_expert_rows(const Count& num_choices, const Count& num_experts) {
  using std::min;
  const Count experts_with_rows = min(num_choices, num_experts);
  return num_choices + experts_with_rows * Count(kExpertRowMultiple - 1);
}

}  // namespace trine
