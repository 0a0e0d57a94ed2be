#include "data/order.h"

#include <algorithm>

#include "base/errors.h"
#include "base/log.h"
#include "base/random.h"

namespace trine {
namespace {

std::string_view without_full_stop(std::string_view sentence) {
  if (sentence.ends_with('.')) sentence.remove_suffix(1);
  return sentence;
}

}  // namespace

OrderedSource::OrderedSource(std::unique_ptr<RecordReader> reader, DocumentMaker maker, OrderSettings settings)
    : reader_(std::move(reader)), maker_(std::move(maker)), settings_(settings) {
  settings_.shuffle_window = std::max<int64_t>(settings_.shuffle_window, 1);
}

std::string OrderedSource::describe(int32_t file, int64_t record) const {
  return fmt::format("{}:{}", reader_->files().at(file).string(), record);
}

void OrderedSource::restore(const OrderState& state) {
  state_ = state;
  loaded_ = false;
}

// Reads the records of the window that begins at state_.window_start, in the order in which they are to be used.
bool OrderedSource::load_window() {
  window_.clear();
  if (reader_->tell() != state_.window_start) reader_->seek(state_.window_start);
  Record record;
  while (static_cast<int64_t>(window_.size()) < settings_.shuffle_window && reader_->next(record)) window_.push_back(std::move(record));
  if (settings_.shuffle_window > 1) {
    const CounterRandom random(settings_.seed, fmt::format("shuffle/{}/{}/{}", settings_.source, state_.epoch, state_.window));
    for (size_t i = window_.size(); i > 1; --i) std::swap(window_[i - 1], window_[random.below(i, i)]);
  }
  loaded_ = true;
  return !window_.empty();
}

std::optional<Document> OrderedSource::next() {
  for (;;) {
    if (settings_.num_epochs > 0 && state_.epoch >= settings_.num_epochs) return std::nullopt;
    if (!loaded_) load_window();
    if (state_.taken < static_cast<int64_t>(window_.size())) {
      Record& record = window_[static_cast<size_t>(state_.taken++)];
      std::optional<Document> document = make(record);
      record.keep.reset();  // the window's memory goes as it is used
      if (!document || document->ids.empty()) continue;
      check_ids(*document);
      ++state_.epoch_documents;
      return document;
    }
    // After the last window of an epoch the reader stands at the end, and the next window would be empty.
    const bool epoch_ends = window_.empty();
    if (epoch_ends) {
      if (state_.epoch_documents == 0) {
        throw UserError("{}: no text to train on: {} files, {} records left out, all others empty", reader_->files().front().string(),
                        reader_->files().size(), state_.num_skipped);
      }
      const int64_t skipped = state_.num_skipped;
      if (skipped > 0) {
        log::warning("{}: {} records left out so far, after {} epochs", reader_->files().front().string(), skipped, state_.epoch + 1);
      }
      state_ = {.epoch = state_.epoch + 1, .num_skipped = skipped};
    } else {
      state_.window_start = reader_->tell();
      state_.taken = 0;
      ++state_.window;
    }
    loaded_ = false;
  }
}

std::optional<Document> OrderedSource::make(const Record& record) {
  constexpr int64_t kShown = 5;  // skipped records that are logged one by one
  const auto skip = [&](const char* why) {
    ++state_.num_skipped;
    if (state_.num_skipped <= kShown) log::warning("{}: left out: {}", describe(record.file, record.number), why);
    if (state_.num_skipped == kShown) log::warning("more records left out are counted, not shown");
    return std::nullopt;
  };
  try {
    return maker_(record);
  } catch (const BadRecord& bad) {
    if (settings_.skip_bad) return skip(bad.what());
    throw UserError("{}: {}. Mend it, or set dataloader.on_bad_record = skip to leave such records out and count them.",
                    describe(record.file, record.number), without_full_stop(bad.what()));
  } catch (const LongChat& bad) {
    if (settings_.skip_long) return skip(bad.what());
    throw UserError("{}: {}. A chat is never cut: raise training.seq_len, or set dataloader.on_long_chat = skip to leave such chats out "
                    "and count them.",
                    describe(record.file, record.number), bad.what());
  }
}

void OrderedSource::check_ids(const Document& document) const {
  const auto bad = std::find_if(document.ids.begin(), document.ids.end(), [&](int32_t id) { return id < 0 || id >= settings_.vocab_rows; });
  if (bad == document.ids.end()) return;
  throw UserError("{}: token {} of the document has id {}, but the model's embedding has {} rows. The tokenizer or the pre-tokenised data "
                  "is of another model than config.json; use those that belong together (model.hf_assets_path).",
                  describe(document.file, document.record), bad - document.ids.begin(), *bad, settings_.vocab_rows);
}

}  // namespace trine
