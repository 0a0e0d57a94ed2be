// From the data library's batches, which know no torch, to what the model reads.
#pragma once

#include "data/batch.h"
#include "model/batch_inputs.h"

namespace trine {

// Copies ids, labels and positions to int64 tensors of [rows, seq_len]; every piece of the batch (padding too) is a piece of the result.
// `loss_scale`: 1 / the count of valid labels of the whole step.
BatchInputs to_inputs(const Batch& batch, double loss_scale);

}  // namespace trine
