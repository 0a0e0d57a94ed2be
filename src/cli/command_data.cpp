// trine data: the rows that a recipe trains on, as the trainer gets them, read back to text.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "config/load.h"
#include "data/loader.h"
#include "model/model_args.h"
#include "text/tokenizer.h"

namespace trine {
namespace {

// A piece of a row, with what a reader wants to know of it.
struct Piece {
  int64_t begin, end;  // in the row
  PieceOrigin origin;
};

std::vector<Piece> pieces_of(const Batch& batch, int64_t row) {
  const auto& starts = batch.piece_starts[static_cast<size_t>(row)];
  std::vector<Piece> pieces;
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t end = i + 1 < starts.size() ? starts[i + 1] : batch.seq_len;
    pieces.push_back({starts[i], end, batch.piece_origins[static_cast<size_t>(row)][i]});
  }
  return pieces;
}

class Printer {
 public:
  Printer(const Batch& batch, const DataLoader& loader, const Tokenizer& tokenizer)
      : batch_(batch), loader_(loader), tokenizer_(tokenizer) {}

  void print() const {
    for (int64_t row = 0; row < batch_.num_rows; ++row) {
      const std::vector<Piece> pieces = pieces_of(batch_, row);
      fmt::print("row {}: {} tokens, {} labels, {} padding\n", batch_.first_row + row, batch_.row_tokens[static_cast<size_t>(row)],
                 take_rows(batch_, row, row + 1).num_valid, batch_.seq_len - batch_.row_tokens[static_cast<size_t>(row)]);
      for (const Piece& piece : pieces) {
        if (piece.origin.document >= 0) print_piece(row, piece);
      }
    }
    fmt::print("\n{} rows of {}: {} tokens, {} labels, {} records left out\n", batch_.num_rows, batch_.seq_len, batch_.num_tokens,
               batch_.num_valid, loader_.num_skipped());
  }

  Json json() const {
    Json rows = Json::array();
    for (int64_t row = 0; row < batch_.num_rows; ++row) {
      Json pieces = Json::array();
      for (const Piece& piece : pieces_of(batch_, row)) {
        Json entry = {{"start", piece.begin}, {"length", piece.end - piece.begin}};
        if (piece.origin.document >= 0) {
          entry["document"] = piece.origin.document;
          entry["where"] = loader_.describe(piece.origin);
          entry["token_offset"] = piece.origin.token_offset;
          entry["text"] = text(row, piece.begin, piece.end);
        } else {
          entry["padding"] = true;
        }
        pieces.push_back(std::move(entry));
      }
      rows.push_back({{"row", batch_.first_row + row},
                      {"input_ids", of_row(batch_.input_ids, row)},
                      {"labels", of_row(batch_.labels, row)},
                      {"positions", of_row(batch_.positions, row)},
                      {"pieces", std::move(pieces)}});
    }
    return {{"seq_len", batch_.seq_len},
            {"num_tokens", batch_.num_tokens},
            {"num_valid", batch_.num_valid},
            {"num_skipped", loader_.num_skipped()},
            {"rows", std::move(rows)}};
  }

 private:
  // One line per run of tokens that are learned (+) or only read (-). A token is learned where it is the label of the one before it.
  void print_piece(int64_t row, const Piece& piece) const {
    fmt::print("  document {}  {}  tokens {} to {}\n", piece.origin.document, loader_.describe(piece.origin), piece.origin.token_offset,
               piece.origin.token_offset + piece.end - piece.begin - 1);
    for (int64_t begin = piece.begin; begin < piece.end;) {
      int64_t end = begin + 1;
      while (end < piece.end && learned(row, piece, end) == learned(row, piece, begin)) ++end;
      fmt::print("    {} {}\n", learned(row, piece, begin) ? '+' : '-', Json(text(row, begin, end)).dump(-1, ' ', false));
      begin = end;
    }
  }

  bool learned(int64_t row, const Piece& piece, int64_t at) const {
    if (at == piece.begin) return piece.origin.token_offset > 0;  // the last label of the row before
    return batch_.labels[static_cast<size_t>(row * batch_.seq_len + at - 1)] != kIgnoreIndex;
  }

  std::string text(int64_t row, int64_t begin, int64_t end) const {
    const int32_t* ids = batch_.input_ids.data() + row * batch_.seq_len;
    return tokenizer_.decode({ids + begin, ids + end});
  }

  std::vector<int32_t> of_row(const std::vector<int32_t>& all, int64_t row) const {
    return {all.begin() + row * batch_.seq_len, all.begin() + (row + 1) * batch_.seq_len};
  }

  const Batch& batch_;
  const DataLoader& loader_;
  const Tokenizer& tokenizer_;
};

int run(const Words& words) {
  std::string recipe;
  Words options;
  int64_t num_rows = 4;
  bool as_json = false;
  Arguments arguments("trine data",
                      "Prints the first rows that a recipe trains on: documents, text, which tokens are learned (+) and only read (-).");
  arguments.positional("RECIPE", recipe, "a TOML file");
  arguments.option("--rows", "N", num_rows, "how many rows");
  arguments.flag("--json", as_json, "print ids, labels, positions and pieces as JSON");
  arguments.recipe_options(options);
  if (!arguments.parse(words)) return 0;
  if (num_rows < 1) throw UserError("trine data: --rows {}: expected at least 1", num_rows);

  const Config config = load_config(recipe, options);
  const Tokenizer tokenizer = Tokenizer::from_folder(config.model.hf_assets_path);
  DataloaderConfig data = config.dataloader;
  data.prefetch = 0;  // no more is read than is shown
  const auto loader = make_loader(data, config.training.seq_len, static_cast<uint64_t>(config.debug.seed), tokenizer,
                                  resolve_model_args(config, false).vocab_size, config.model.hf_assets_path);
  const std::optional<Batch> batch = loader->next(num_rows);
  if (!batch) throw UserError("{}: the data gives no row", recipe);
  const Printer printer(*batch, *loader, tokenizer);
  if (as_json) {
    fmt::print("{}\n", printer.json().dump());
  } else {
    fmt::print("{}\n\n", loader->summary());
    printer.print();
  }
  return 0;
}

}  // namespace

const Command kDataCommand = {"data", "the rows that a recipe trains on: text, label masks, document ids", run};

}  // namespace trine
