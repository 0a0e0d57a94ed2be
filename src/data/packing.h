// Documents into rows of S tokens.
//
// Text: the documents form one stream, and row r is its tokens r·S to (r+1)·S. A document that a row's end cuts goes on in the next
// row as a new piece; the label of the row's last token is still the next token of that document.
// Chats: whole samples, each into the first open row that has room; a group of rows is closed when a sample fits into none of them.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "data/batch.h"
#include "data/mix.h"

namespace trine {

// A place between two rows: the documents before it, and how much of what comes next has already been given.
struct PackState {
  MixState mix;        // before the open document (text), or before the first sample of the open group (chats)
  int64_t offset = 0;  // tokens of the open document, or rows of the open group, that have been given
  bool operator==(const PackState&) const = default;
};

// One row, as the slice of a Batch that it becomes.
struct Row {
  std::vector<int32_t> input_ids, labels, positions;  // [S]
  std::vector<int32_t> piece_starts;
  std::vector<PieceOrigin> piece_origins;
  int32_t num_tokens = 0;  // that are not padding

  // Appends tokens [begin, end) of `document` as a piece.
  void append(const StreamDocument& document, int64_t begin, int64_t end);
  void pad_to(int64_t seq_len);
};

class Packer {
 public:
  virtual ~Packer() = default;
  virtual std::optional<Row> next() = 0;  // nullopt at the end of the data
  virtual PackState state() const = 0;    // after the last row given
  virtual void restore(const PackState& state) = 0;

  explicit Packer(Mix mix, int64_t seq_len) : mix_(std::move(mix)), seq_len_(seq_len) {}
  const Mix& mix() const { return mix_; }

 protected:
  Mix mix_;
  int64_t seq_len_;
};

std::unique_ptr<Packer> make_stream_packer(Mix mix, int64_t seq_len);
std::unique_ptr<Packer> make_chat_packer(Mix mix, int64_t seq_len);

}  // namespace trine
