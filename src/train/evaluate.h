// The loss of a model on held-out rows.
#pragma once

#include <cstdint>

#include "base/progress.h"
#include "data/loader.h"
#include "model/segments.h"

namespace trine {

struct EvaluationResult {
  double loss = 0;        // mean over the tokens that have a label, each token counting alike whichever batch it is in
  int64_t num_valid = 0;  // tokens that have a label
  int64_t num_tokens = 0; // input tokens that are not padding
  int64_t num_rows = 0;
  double seconds = 0;

  double perplexity() const;
};

// Runs the loader's rows from its first on, `rows_per_batch` at a time, until its end or after `max_batches` (-1: all of them; the loader
// must then be finite). Forward only: no gradient is recorded and no more than a batch's hidden state and one chunk of logits is held.
// Throws UserError if no token had a label.
EvaluationResult evaluate(Model& model, DataLoader& loader, int64_t rows_per_batch, int64_t max_batches, Progress* progress = nullptr);

}  // namespace trine
