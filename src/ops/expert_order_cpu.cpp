#include "ops/expert_order_cpu.h"

namespace trine {

ExpertOrder order_by_expert(const int64_t* experts, int64_t num_choices, int64_t num_experts) {
  const auto at = [](int64_t i) { return static_cast<size_t>(i); };
  ExpertOrder order;
  order.count.resize(at(num_experts));
  order.begin.resize(at(num_experts + 1));
  for (int64_t i = 0; i < num_choices; ++i) ++order.count[at(experts[i])];
  for (int64_t e = 0; e < num_experts; ++e) {
    const int64_t padded = (order.count[at(e)] + kExpertRowMultiple - 1) / kExpertRowMultiple * kExpertRowMultiple;
    order.begin[at(e + 1)] = order.begin[at(e)] + padded;
  }
  order.choice.assign(at(order.begin.back()), -1);
  order.row.resize(at(num_choices));
  std::vector<int64_t> next(order.begin.begin(), order.begin.end() - 1);
  for (int64_t i = 0; i < num_choices; ++i) {
    const int64_t row = next[at(experts[i])]++;
    order.row[at(i)] = row;
    order.choice[at(row)] = i;
  }
  return order;
}

}  // namespace trine
