// What a micro-batch brings to the model, as tensors.
#pragma once

#include <torch/torch.h>

#include <memory>

#include "ops/attention.h"
#include "ops/rope.h"

namespace trine {

// Keys and values of every layer during generation.
struct KvCache {
  struct Layer {
    at::Tensor k_bksd, v_bksd;  // capacity along S; the first `length` positions are filled
  };
  std::vector<Layer> layers;
  int64_t length = 0, capacity = 0;
};

struct BatchInputs {
  at::Tensor input_ids_bs;  // int64
  at::Tensor labels_bs;     // int64, kIgnoreIndex where no label counts; undefined when no loss is wanted
  at::Tensor positions_bs;  // int64; undefined: 0..S-1 in every row (after what the cache holds)
  PieceStarts pieces;       // empty: each row is one piece
  int64_t longest = 0;      // largest position + 1
  double loss_scale = 1;    // 1 / the step's global count of valid tokens
  KvCache* cache = nullptr;  // generation: keys and values so far, extended by the forward pass

  // cos and sin for this batch's positions: [S, D/2] or, with positions, [B, S, D/2].
  std::pair<at::Tensor, at::Tensor> rotary(RopeTable& table) const;

 private:
  // Every layer asks with the table it has; layers usually share one.
  mutable const RopeTable* last_table_ = nullptr;
  mutable std::pair<at::Tensor, at::Tensor> last_rotary_;
};

}  // namespace trine
