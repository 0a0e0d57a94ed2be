#include "train/batch_tensors.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace trine {
namespace {

TEST(ToInputs, CopiesIdsLabelsPositionsAndEveryPiece) {
  Batch batch;
  batch.num_rows = 2;
  batch.seq_len = 4;
  batch.input_ids = {1, 2, 3, 0, 5, 6, 7, 8};
  batch.labels = {2, -100, -100, -100, 6, 7, 8, 9};
  batch.positions = {0, 1, 0, 0, 0, 1, 2, 3};
  batch.piece_starts = {{0, 2, 3}, {0}};
  const BatchInputs inputs = to_inputs(batch, 0.25);

  EXPECT_TRUE(at::equal(inputs.input_ids_bs, torch::tensor({{1, 2, 3, 0}, {5, 6, 7, 8}}, at::kLong)));
  EXPECT_TRUE(at::equal(inputs.labels_bs, torch::tensor({{2, -100, -100, -100}, {6, 7, 8, 9}}, at::kLong)));
  EXPECT_TRUE(at::equal(inputs.positions_bs, torch::tensor({{0, 1, 0, 0}, {0, 1, 2, 3}}, at::kLong)));
  EXPECT_EQ(inputs.pieces, (PieceStarts{{0, 2, 3}, {0}}));
  EXPECT_EQ(inputs.longest, 4);
  EXPECT_EQ(inputs.loss_scale, 0.25);
}

TEST(ToInputs, LeavesPositionsOutWhereEveryRowIsOnePiece) {
  Batch batch;
  batch.num_rows = 1;
  batch.seq_len = 3;
  batch.input_ids = {1, 2, 3};
  batch.labels = {2, 3, 4};
  batch.positions = {0, 1, 2};
  batch.piece_starts = {{0}};
  const BatchInputs inputs = to_inputs(batch, 1);
  EXPECT_FALSE(inputs.positions_bs.defined());
  EXPECT_TRUE(inputs.pieces.empty());
  EXPECT_EQ(inputs.longest, 3);
}

}  // namespace
}  // namespace trine
