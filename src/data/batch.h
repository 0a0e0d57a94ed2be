// Rows of tokens as the trainer gets them: what a step reads, and where each piece of each row came from.
//
// Shape letters: R rows of this batch, S seq_len. All [R, S] arrays are row-major.
//
// A row is cut into pieces: the parts of documents that lie in it, in order, without gaps; padding, if any, is a last piece of its own.
// Attention and positions never cross a piece, so that a loop over `piece_starts` is all that document masking needs.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ignore_index.h"

namespace trine {

// Where a piece comes from. `document` numbers the documents of the whole stream (epochs and mixes included) from 0.
struct PieceOrigin {
  int64_t document = -1;      // -1: padding
  int32_t source = 0;         // which path of the mix
  int32_t file = 0;           // which file of that source
  int64_t record = 0;         // line (JSONL), row (Parquet), document (shards), counted from 1
  int64_t token_offset = 0;   // of the piece's first token in its document
  bool operator==(const PieceOrigin&) const = default;
};

struct Batch {
  int64_t first_row = 0;  // number of the first row in the run: rows are numbered globally, from 0
  int64_t num_rows = 0;
  int64_t seq_len = 0;

  std::vector<int32_t> input_ids;  // [R, S]; 0 in padding, which is told by its piece and never by an id
  std::vector<int32_t> labels;     // [R, S], already shifted: labels[i] belongs to input_ids[i]; kIgnoreIndex where there is none
  std::vector<int32_t> positions;  // [R, S], from 0 in each piece

  std::vector<std::vector<int32_t>> piece_starts;       // [R][pieces], ascending, the first is 0; the last piece ends at S
  std::vector<std::vector<PieceOrigin>> piece_origins;  // [R][pieces], parallel to piece_starts
  std::vector<int32_t> row_tokens;                      // [R] input tokens that are not padding (padding lies behind them)

  int64_t num_valid = 0;   // labels that count
  int64_t num_tokens = 0;  // input tokens that are not padding

  bool operator==(const Batch&) const = default;
};

// Rows [begin, end) of `batch` as a batch of its own, its counts recomputed: a rank's share, or a micro-batch. May be empty.
Batch take_rows(const Batch& batch, int64_t begin, int64_t end);

}  // namespace trine
