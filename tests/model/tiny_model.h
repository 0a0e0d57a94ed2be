// A model small enough for float64 and for every gradient to be looked at; heads · head_dim is not its hidden size.
#pragma once

#include "base/ignore_index.h"
#include "model/segments.h"

namespace trine {

inline ModelArgs tiny_args(bool tied = true) {
  ModelArgs args;
  args.vocab_size = 50;
  args.hidden_size = 16;
  args.intermediate_size = 24;
  args.num_hidden_layers = 3;
  args.num_attention_heads = 4;
  args.num_key_value_heads = 2;
  args.head_dim = 8;
  args.max_position_embeddings = 64;
  args.tie_word_embeddings = tied;
  args.initializer_range = 0.2;  // large, so that no gradient is lost in rounding
  return args;
}

inline std::unique_ptr<Model> tiny_model(const UnitDtypes& dtypes, const ModelArgs& args = tiny_args()) {
  auto model = std::make_unique<Model>(args, build_spec(args), dtypes);
  model->initialize(7);
  return model;
}

inline UnitDtypes all(at::ScalarType dtype) { return {.master = dtype, .compute = dtype, .gradient = dtype}; }

// Rows of ids that repeat nothing; every label is the next id, the last of each row ignored.
inline BatchInputs tiny_batch(int64_t rows, int64_t length, int64_t salt = 0) {
  BatchInputs batch;
  batch.input_ids_bs = (at::arange(rows * length, at::kLong).mul_(17).add_(salt).remainder_(49) + 1).view({rows, length});
  batch.labels_bs = batch.input_ids_bs.roll(-1, 1);
  batch.labels_bs.select(1, length - 1).fill_(kIgnoreIndex);
  batch.longest = length;
  return batch;
}

// The batch with pieces that begin at `pieces`, positions and labels following.
inline BatchInputs packed(BatchInputs batch, const PieceStarts& pieces) {
  batch.pieces = pieces;
  batch.positions_bs = at::zeros_like(batch.input_ids_bs);
  for (size_t row = 0; row < pieces.size(); ++row) {
    for (size_t i = 0; i < pieces[row].size(); ++i) {
      const int64_t begin = pieces[row][i], end = i + 1 < pieces[row].size() ? pieces[row][i + 1] : batch.input_ids_bs.size(1);
      batch.positions_bs[static_cast<int64_t>(row)].narrow(0, begin, end - begin).copy_(at::arange(end - begin, at::kLong));
      batch.labels_bs[static_cast<int64_t>(row)][end - 1] = kIgnoreIndex;
    }
  }
  return batch;
}

inline int64_t num_valid(const BatchInputs& batch) { return batch.labels_bs.ne(kIgnoreIndex).sum().item<int64_t>(); }

// ‖a − b‖ / ‖b‖ in float64.
inline double difference(const at::Tensor& a, const at::Tensor& b) {
  const double norm = b.to(at::kDouble).norm().item<double>();
  return (a.to(at::kDouble) - b.to(at::kDouble)).norm().item<double>() / (norm > 0 ? norm : 1);
}

}  // namespace trine
