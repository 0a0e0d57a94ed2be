#include "train/evaluate.h"

#include <chrono>
#include <cmath>

#include "base/errors.h"
#include "train/batch_tensors.h"

namespace trine {

double EvaluationResult::perplexity() const { return std::exp(loss); }

EvaluationResult evaluate(Model& model, DataLoader& loader, int64_t rows_per_batch, int64_t max_batches, Progress* progress) {
  const auto begin = std::chrono::steady_clock::now();
  loader.rewind();
  EvaluationResult result;
  double sum = 0;
  for (int64_t i = 0; max_batches < 0 || i < max_batches; ++i) {
    const std::optional<Batch> batch = loader.next(rows_per_batch);
    if (!batch) break;
    if (batch->num_valid > 0) sum += model.loss(to_inputs(*batch, /*loss_scale=*/1));
    result.num_valid += batch->num_valid;
    result.num_tokens += batch->num_tokens;
    result.num_rows += batch->num_rows;
    if (progress) progress->update(i + 1, fmt::format("loss {:.4f}", sum / static_cast<double>(std::max<int64_t>(result.num_valid, 1))));
  }
  if (result.num_valid == 0) {
    throw UserError("evaluation: none of the {} rows read has a token with a label, so there is no loss.\n{}", result.num_rows,
                    loader.summary());
  }
  result.loss = sum / static_cast<double>(result.num_valid);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace trine
