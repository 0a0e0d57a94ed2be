#include "data/loader.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/format.h"
#include "data/formats.h"
#include "data/prefetch.h"
#include "data/shards.h"
#include "data/sources.h"
#include "data/state.h"

namespace trine {

struct DataLoader::Implementation {
  std::vector<SourceFiles> sources;
  std::vector<double> weights;
  int64_t seq_len;
  int64_t prefetch_steps;
  Json identity;
  std::unique_ptr<Packer> packer;
  PackState start, consumed;
  int64_t num_rows = 0;  // handed out
  double wait_seconds = 0;
  Prefetcher prefetcher{*packer};  // after the packer, whose user its thread is
};

DataLoader::DataLoader(std::unique_ptr<Implementation> implementation) : implementation_(std::move(implementation)) {}
DataLoader::~DataLoader() = default;

std::optional<Batch> DataLoader::next(int64_t num_rows) {
  Implementation& self = *implementation_;
  const auto begin = std::chrono::steady_clock::now();
  Batch batch{.first_row = self.num_rows, .seq_len = self.seq_len};
  PackState after = self.consumed;
  while (batch.num_rows < num_rows) {
    std::optional<PlacedRow> placed = self.prefetcher.take(self.prefetch_steps * num_rows);
    if (!placed) break;
    Row& row = placed->row;
    batch.input_ids.insert(batch.input_ids.end(), row.input_ids.begin(), row.input_ids.end());
    batch.labels.insert(batch.labels.end(), row.labels.begin(), row.labels.end());
    batch.positions.insert(batch.positions.end(), row.positions.begin(), row.positions.end());
    batch.piece_starts.push_back(std::move(row.piece_starts));
    batch.piece_origins.push_back(std::move(row.piece_origins));
    batch.row_tokens.push_back(row.num_tokens);
    batch.num_tokens += row.num_tokens;
    batch.num_valid += self.seq_len - std::count(row.labels.begin(), row.labels.end(), kIgnoreIndex);
    ++batch.num_rows;
    after = std::move(placed->after);
  }
  self.wait_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (batch.num_rows == 0) return std::nullopt;
  self.consumed = std::move(after);
  self.num_rows += batch.num_rows;
  return batch;
}

Json DataLoader::state() const {
  return place_to_json(implementation_->consumed, implementation_->num_rows, implementation_->identity);
}

void DataLoader::restore(const Json& state) {
  Implementation& self = *implementation_;
  SavedPlace saved = place_from_json(state, self.identity, self.sources.size());
  self.prefetcher.stop();
  self.packer->restore(saved.place);
  self.consumed = std::move(saved.place);
  self.num_rows = saved.num_rows;
}

void DataLoader::rewind() {
  Implementation& self = *implementation_;
  self.prefetcher.stop();
  self.packer->restore(self.start);
  self.consumed = self.start;
  self.num_rows = 0;
}

std::string DataLoader::describe(const PieceOrigin& origin) const {
  if (origin.document < 0) return "padding";
  return implementation_->packer->mix().source(origin.source).describe(origin.file, origin.record);
}

std::string DataLoader::summary() const {
  const Implementation& self = *implementation_;
  double all = 0;
  for (const double weight : self.weights) all += weight;
  std::string lines;
  for (size_t i = 0; i < self.sources.size(); ++i) {
    const SourceFiles& source = self.sources[i];
    const std::string others = source.files.size() > 1 ? fmt::format(" and {} more files", source.files.size() - 1) : "";
    lines += fmt::format("{}{}: {}{}, {}", i ? "\n" : "", source.dataset, source.files.front().string(), others,
                         in_bytes(source.num_bytes));
    if (self.sources.size() > 1) lines += fmt::format(", {:.1f}% of the tokens", 100 * self.weights[i] / all);
  }
  return lines;
}

int64_t DataLoader::num_skipped() const {
  int64_t total = 0;
  for (const OrderState& order : implementation_->consumed.mix.sources) total += order.num_skipped;
  return total;
}

double DataLoader::wait_seconds() const { return implementation_->wait_seconds; }

namespace {

struct LoaderSettings {
  const DataloaderConfig& data;
  int64_t seq_len;
  uint64_t seed;
  const Tokenizer& tokenizer;
  int64_t vocab_rows;
  const std::filesystem::path& chat_template_folder;
};

OrderedSource open_source(const SourceFiles& source, int32_t index, const LoaderSettings& settings) {
  const DataloaderConfig& data = settings.data;
  const FormatOptions options{.tokenizer = settings.tokenizer,
                              .text_field = data.text_field,
                              .document_end = data.document_end,
                              .seq_len = settings.seq_len,
                              .chat_template_folder = settings.chat_template_folder};
  return {open_records(source, options), document_maker(source.format, options),
          {.seed = settings.seed,
           .source = index,
           .shuffle_window = data.shuffle_window,
           .num_epochs = data.num_epochs,
           .vocab_rows = settings.vocab_rows,
           .skip_bad = data.on_bad_record == "skip",
           .skip_long = data.on_long_chat == "skip"}};
}

// Everything that the order of tokens depends on, under the names that a user knows.
Json identity_of(const std::vector<SourceFiles>& sources, const LoaderSettings& settings) {
  const DataloaderConfig& data = settings.data;
  Json identity = {{"training.seq_len", settings.seq_len},
                   {"debug.seed", settings.seed},
                   {"dataloader.weights", data.weights},
                   {"dataloader.text_field", data.text_field},
                   {"dataloader.document_end", data.document_end},
                   {"dataloader.shuffle_window", data.shuffle_window},
                   {"tokenizer (fingerprint)", tokenizer_fingerprint(settings.tokenizer)},
                   {"number of sources", sources.size()}};
  for (size_t i = 0; i < sources.size(); ++i) {
    const SourceFiles& source = sources[i];
    identity[fmt::format("source {}", i + 1)] = fmt::format("{} {} ({} files, {} bytes, digest {})", source.dataset,
                                                            source.files.front().filename().string(), source.files.size(), source.num_bytes,
                                                            source.digest);
  }
  return identity;
}

std::unique_ptr<DataLoader> make(std::vector<SourceFiles> sources, const LoaderSettings& settings) {
  const bool chats = sources.front().format == Format::kChat;
  for (const SourceFiles& source : sources) {
    if ((source.format == Format::kChat) != chats) {
      throw UserError("chats and texts cannot be mixed: chats are packed whole, texts are cut at the ends of rows. Found {} ({}) beside {} "
                      "({}).",
                      sources.front().dataset, sources.front().files.front().string(), source.dataset, source.files.front().string());
    }
  }
  const DataloaderConfig& data = settings.data;
  std::vector<double> weights = data.weights;
  if (weights.empty()) {
    for (const SourceFiles& source : sources) weights.push_back(static_cast<double>(std::max<uint64_t>(source.num_bytes, 1)));
  }
  if (weights.size() != sources.size()) throw UserError("dataloader.weights: {} weights for {} sources", weights.size(), sources.size());

  std::vector<OrderedSource> ordered;
  for (size_t i = 0; i < sources.size(); ++i) ordered.push_back(open_source(sources[i], static_cast<int32_t>(i), settings));
  Mix mix(std::move(ordered), weights, !data.weights.empty());
  const PackState start{mix.state(), 0};
  Json identity = identity_of(sources, settings);
  auto packer = chats ? make_chat_packer(std::move(mix), settings.seq_len) : make_stream_packer(std::move(mix), settings.seq_len);
  return std::make_unique<DataLoader>(std::unique_ptr<DataLoader::Implementation>(new DataLoader::Implementation{
      .sources = std::move(sources),
      .weights = std::move(weights),
      .seq_len = settings.seq_len,
      .prefetch_steps = data.prefetch,
      .identity = std::move(identity),
      .packer = std::move(packer),
      .start = start,
      .consumed = start}));
}

}  // namespace

std::unique_ptr<DataLoader> make_loader(const DataloaderConfig& settings, int64_t seq_len, uint64_t seed, const Tokenizer& tokenizer,
                                        int64_t vocab_rows, const std::filesystem::path& chat_template_folder) {
  return make(find_sources(settings.dataset, settings.dataset_path, Part::kTraining),
              {settings, seq_len, seed, tokenizer, vocab_rows, chat_template_folder});
}

std::unique_ptr<DataLoader> make_validation_loader(const ValidationConfig& settings, const DataloaderConfig& training, int64_t seq_len,
                                                   const Tokenizer& tokenizer, int64_t vocab_rows,
                                                   const std::filesystem::path& chat_template_folder) {
  DataloaderConfig data = training;
  data.dataset = settings.dataset;
  data.dataset_path = settings.dataset_path;
  data.weights.clear();
  data.num_epochs = 1;
  data.shuffle_window = 0;
  data.prefetch = 0;
  return make(find_sources(data.dataset, data.dataset_path, Part::kHeldOut),
              {data, seq_len, 0, tokenizer, vocab_rows, chat_template_folder});
}

}  // namespace trine
