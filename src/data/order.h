// The order in which one source's documents are read: epoch after epoch, shuffled within windows of consecutive records.
//
// A window is a block of `shuffle_window` records; its permutation is a function of (seed, source, epoch, number of the window). So a
// place in the order is the cursor at which the window began and a count, and going back to it reads one window's records again and
// tokenises none of them.
#pragma once

#include <functional>
#include <optional>

#include "data/documents.h"
#include "data/record.h"

namespace trine {

struct OrderSettings {
  uint64_t seed = 0;
  int32_t source = 0;          // number of the source in the mix
  int64_t shuffle_window = 0;  // records; 0 or 1: in order
  int64_t num_epochs = 0;      // 0: without end
  int64_t vocab_rows = 0;      // ids at or above are an error
  bool skip_bad = false, skip_long = false;
};

struct OrderState {
  int64_t epoch = 0;
  int64_t window = 0;             // number of the current window in its epoch
  Cursor window_start;
  int64_t taken = 0;              // records of the current window already read
  int64_t epoch_documents = 0;    // documents that this epoch has given
  int64_t num_skipped = 0;        // records left out, all epochs
  bool operator==(const OrderState&) const = default;
};

class OrderedSource {
 public:
  OrderedSource(std::unique_ptr<RecordReader> reader, DocumentMaker maker, OrderSettings settings);

  // The next document with at least one token; nullopt once num_epochs have been read. Throws UserError for a bad record that is not to
  // be skipped, for an id that the model has no row for, and for a source without any document.
  std::optional<Document> next();

  const OrderState& state() const { return state_; }
  void restore(const OrderState& state);
  std::string describe(int32_t file, int64_t record) const;

 private:
  bool load_window();
  std::optional<Document> make(const Record& record);
  void check_ids(const Document& document) const;

  std::unique_ptr<RecordReader> reader_;
  DocumentMaker maker_;
  OrderSettings settings_;
  OrderState state_;
  bool loaded_ = false;          // window_ holds the window of state_
  std::vector<Record> window_;   // in the order of reading
};

}  // namespace trine
