// The stream of training rows: sources, mix, shuffle, packing and prefetch behind one object whose place in the data can be saved.
//
// The order is a function of (data, settings, seed, place) and of nothing else. `state()` tells the place after the rows that next()
// has handed out, whatever a prefetch thread has prepared ahead; `restore()` goes there without reading again what came before the
// current shuffle window.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/json.h"
#include "config/config.h"
#include "data/batch.h"

namespace trine {

class Tokenizer;

class DataLoader {
 public:
  // Use make_loader() or make_validation_loader().
  struct Implementation;
  explicit DataLoader(std::unique_ptr<Implementation> implementation);
  ~DataLoader();
  DataLoader(const DataLoader&) = delete;
  DataLoader& operator=(const DataLoader&) = delete;

  // The next `num_rows` rows (all rows of a step over all ranks). At the end of the data (only with num_epochs set) fewer rows, then
  // nullopt. Throws UserError with file and line if one of the rows cannot be made; rows handed out before stay counted.
  std::optional<Batch> next(int64_t num_rows);

  // The place after the rows handed out so far, and what the data is. Small: its size does not depend on the amount of data.
  Json state() const;
  // Goes on exactly after the rows handed out before state() was taken. Throws UserError if the state is of other data or settings,
  // naming old and new, or of a newer version.
  void restore(const Json& state);
  // Starts again at the first row.
  void rewind();

  // Where a piece comes from, for messages: "corpus.jsonl:17". Padding: "padding".
  std::string describe(const PieceOrigin& origin) const;
  // One line per source: name, files, bytes, share. For the start of a run.
  std::string summary() const;
  // Records left out so far (on_bad_record = skip, on_long_chat = skip), in the rows handed out and what was read for them.
  int64_t num_skipped() const;
  // Seconds that next() has spent waiting for data since construction.
  double wait_seconds() const;

 private:
  std::unique_ptr<Implementation> implementation_;
};

// The training rows that `settings` describe. `vocab_rows`: rows of the model's embedding; an id at or above it is an error when it is
// read. `chat_template_folder`: where the dataset chat finds its template (model.hf_assets_path); others do not need it. The tokenizer's
// tables are shared, not referred to. Throws UserError for unknown names, missing files and data without any token.
std::unique_ptr<DataLoader> make_loader(const DataloaderConfig& settings, int64_t seq_len, uint64_t seed, const Tokenizer& tokenizer,
                                        int64_t vocab_rows, const std::filesystem::path& chat_template_folder = {});

// One pass over the held-out data: in order, no prefetch, last row padded, packed like the training rows. Fields that ValidationConfig
// lacks (text_field, document_end, ...) are those of `training`.
std::unique_ptr<DataLoader> make_validation_loader(const ValidationConfig& settings, const DataloaderConfig& training, int64_t seq_len,
                                                   const Tokenizer& tokenizer, int64_t vocab_rows,
                                                   const std::filesystem::path& chat_template_folder = {});

}  // namespace trine
