#include "train/batch_tensors.h"

#include <algorithm>

namespace trine {
namespace {

at::Tensor to_tensor(const std::vector<int32_t>& values, int64_t num_rows, int64_t seq_len) {
  at::Tensor result = at::empty({num_rows, seq_len}, at::kLong);
  std::copy(values.begin(), values.end(), result.data_ptr<int64_t>());
  return result;
}

}  // namespace

BatchInputs to_inputs(const Batch& batch, double loss_scale) {
  BatchInputs inputs;
  inputs.input_ids_bs = to_tensor(batch.input_ids, batch.num_rows, batch.seq_len);
  inputs.labels_bs = to_tensor(batch.labels, batch.num_rows, batch.seq_len);
  inputs.longest = batch.seq_len;
  inputs.loss_scale = loss_scale;

  // Rows of one piece have the positions 0..S-1 that the model assumes, and share one rotary table.
  const auto& starts = batch.piece_starts;
  if (std::all_of(starts.begin(), starts.end(), [](const auto& row) { return row.size() == 1; })) return inputs;
  for (const auto& row : starts) inputs.pieces.emplace_back(row.begin(), row.end());
  inputs.positions_bs = to_tensor(batch.positions, batch.num_rows, batch.seq_len);
  inputs.longest = *std::max_element(batch.positions.begin(), batch.positions.end()) + 1;
  return inputs;
}

}  // namespace trine
