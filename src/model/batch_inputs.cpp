#include "model/batch_inputs.h"

namespace trine {

std::pair<at::Tensor, at::Tensor> BatchInputs::rotary(RopeTable& table) const {
  if (last_table_ == &table) return last_rotary_;
  const int64_t first = cache ? cache->length : 0, num_new = input_ids_bs.size(1);
  if (positions_bs.defined()) {
    auto [cos, sin] = table.rows(longest);
    last_rotary_ = {cos.index({positions_bs}), sin.index({positions_bs})};
  } else {
    auto [cos, sin] = table.rows(first + num_new);
    last_rotary_ = {cos.narrow(0, first, num_new), sin.narrow(0, first, num_new)};
  }
  last_table_ = &table;
  return last_rotary_;
}

}  // namespace trine
