#include "data/batch.h"

#include <algorithm>

namespace trine {

Batch take_rows(const Batch& batch, int64_t begin, int64_t end) {
  Batch part{.first_row = batch.first_row + begin, .num_rows = end - begin, .seq_len = batch.seq_len};
  const auto tokens = [&](const std::vector<int32_t>& all) {
    return std::vector<int32_t>(all.begin() + begin * batch.seq_len, all.begin() + end * batch.seq_len);
  };
  part.input_ids = tokens(batch.input_ids);
  part.labels = tokens(batch.labels);
  part.positions = tokens(batch.positions);
  part.piece_starts.assign(batch.piece_starts.begin() + begin, batch.piece_starts.begin() + end);
  part.piece_origins.assign(batch.piece_origins.begin() + begin, batch.piece_origins.begin() + end);
  part.row_tokens.assign(batch.row_tokens.begin() + begin, batch.row_tokens.begin() + end);
  part.num_valid = static_cast<int64_t>(part.labels.size()) - std::count(part.labels.begin(), part.labels.end(), kIgnoreIndex);
  for (const int32_t count : part.row_tokens) part.num_tokens += count;
  return part;
}

}  // namespace trine
