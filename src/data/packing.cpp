#include "data/packing.h"

#include <algorithm>
#include <utility>

#include "base/errors.h"

namespace trine {
namespace {

// The saved place was checked against the files' names and sizes, so their content must have changed.
[[noreturn]] void not_that_data() {
  throw UserError("the training data is not what it was when the state was saved: its files have the same names and sizes, but other "
                  "content. Bring back the old files, or start a new run from the checkpoint's weights (checkpoint.initial_load_path).");
}

}  // namespace

void Row::append(const StreamDocument& document, int64_t begin, int64_t end) {
  const auto& ids = document.ids;
  piece_starts.push_back(static_cast<int32_t>(input_ids.size()));
  piece_origins.push_back({.document = document.number, .source = document.source, .file = document.file, .record = document.record,
                           .token_offset = begin});
  input_ids.insert(input_ids.end(), ids.begin() + begin, ids.begin() + end);
  for (int64_t i = begin; i < end; ++i) {
    const bool has_label = i + 1 < static_cast<int64_t>(ids.size()) && (document.supervised.empty() || document.supervised[i + 1]);
    labels.push_back(has_label ? ids[i + 1] : kIgnoreIndex);
    positions.push_back(static_cast<int32_t>(i - begin));
  }
  num_tokens = static_cast<int32_t>(input_ids.size());
}

void Row::pad_to(int64_t seq_len) {
  const int64_t missing = seq_len - num_tokens;
  if (missing == 0) return;
  piece_starts.push_back(num_tokens);
  piece_origins.push_back({});
  input_ids.resize(static_cast<size_t>(seq_len), 0);
  labels.resize(static_cast<size_t>(seq_len), kIgnoreIndex);
  for (int32_t i = 0; i < missing; ++i) positions.push_back(i);
}

namespace {

class StreamPacker : public Packer {
 public:
  using Packer::Packer;

  std::optional<Row> next() override {
    Row row;
    while (row.num_tokens < seq_len_ && open_next_document()) {
      const int64_t length = static_cast<int64_t>(open_->ids.size());
      const int64_t end = std::min(length, offset_ + seq_len_ - row.num_tokens);
      row.append(*open_, offset_, end);
      offset_ = end;
      if (end == length) open_.reset();
    }
    if (row.num_tokens == 0) return std::nullopt;
    row.pad_to(seq_len_);
    return row;
  }

  PackState state() const override {
    if (open_) return {before_open_, offset_};
    return {mix_.state(), 0};
  }

  void restore(const PackState& state) override {
    mix_.restore(state.mix);
    open_.reset();
    if (state.offset == 0) return;
    if (!open_next_document() || state.offset >= static_cast<int64_t>(open_->ids.size())) not_that_data();
    offset_ = state.offset;
  }

 private:
  bool open_next_document() {
    if (open_) return true;
    before_open_ = mix_.state();
    open_ = mix_.next();
    offset_ = 0;
    return open_.has_value();
  }

  std::optional<StreamDocument> open_;
  MixState before_open_;
  int64_t offset_ = 0;  // tokens of open_ that are in rows
};

class ChatPacker : public Packer {
 public:
  using Packer::Packer;

  std::optional<Row> next() override {
    if (given_ == rows_.size()) fill_group();
    if (given_ == rows_.size()) return std::nullopt;
    return std::move(rows_[given_++]);
  }

  PackState state() const override {
    if (given_ < rows_.size()) return {group_start_, static_cast<int64_t>(given_)};
    return {carried_ ? before_carried_ : mix_.state(), 0};
  }

  void restore(const PackState& state) override {
    mix_.restore(state.mix);
    carried_.reset();
    rows_.clear();
    given_ = 0;
    if (state.offset == 0) return;
    fill_group();
    given_ = static_cast<size_t>(state.offset);
    if (given_ >= rows_.size()) not_that_data();
  }

 private:
  // Rows that are filled side by side. More of them waste less of each and cost more to go back to.
  static constexpr size_t kOpenRows = 16;

  void fill_group() {
    rows_.clear();
    given_ = 0;
    group_start_ = carried_ ? before_carried_ : mix_.state();
    for (;;) {
      MixState before = mix_.state();
      std::optional<StreamDocument> sample;
      if (carried_) {
        before = before_carried_;
        sample = std::exchange(carried_, std::nullopt);
      } else {
        sample = mix_.next();
      }
      if (!sample) break;
      const int64_t length = static_cast<int64_t>(sample->ids.size());
      auto row = std::find_if(rows_.begin(), rows_.end(), [&](const Row& r) { return r.num_tokens + length <= seq_len_; });
      if (row == rows_.end()) {
        if (rows_.size() == kOpenRows) {
          before_carried_ = std::move(before);
          carried_ = std::move(sample);
          break;
        }
        row = rows_.emplace(rows_.end());
      }
      row->append(*sample, 0, length);
    }
    for (Row& row : rows_) row.pad_to(seq_len_);
  }

  std::vector<Row> rows_;  // of the open group
  size_t given_ = 0;
  MixState group_start_;
  std::optional<StreamDocument> carried_;  // the sample that closed the last group
  MixState before_carried_;
};

}  // namespace

std::unique_ptr<Packer> make_stream_packer(Mix mix, int64_t seq_len) { return std::make_unique<StreamPacker>(std::move(mix), seq_len); }
std::unique_ptr<Packer> make_chat_packer(Mix mix, int64_t seq_len) { return std::make_unique<ChatPacker>(std::move(mix), seq_len); }

}  // namespace trine
