#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/format.h"
#include "base/log.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/model_options.h"
#include "config/load.h"
#include "train/evaluate.h"

namespace trine {
namespace {

struct Request {
  ModelOptions model;
  Words data, options;
  std::string dataset;
  std::optional<int64_t> seq_len;
  int64_t rows_per_batch = 1, max_batches = -1;
  bool as_json = false;
};

// The options that the request stands for, so that files are found and read exactly as validation during training does it.
Config data_config(const Request& request) {
  Words words = request.options;
  words.insert(words.end(), {"--validation.enable", "true"});
  for (const std::string& path : request.data) words.insert(words.end(), {"--validation.dataset_path", path});
  if (!request.dataset.empty()) words.insert(words.end(), {"--validation.dataset", request.dataset});
  return load_config({}, words);
}

void print_result(const Request& request, const LoadedModel& loaded, const EvaluationResult& result, int64_t seq_len) {
  if (request.as_json) {
    const OrderedJson json = {{"loss", result.loss},           {"perplexity", result.perplexity()}, {"valid_tokens", result.num_valid},
                              {"tokens", result.num_tokens},   {"rows", result.num_rows},           {"seq_len", seq_len},
                              {"seconds", result.seconds},     {"weights", loaded.weights},
                              {"dtype", c10::toString(loaded.model->segments()[0]->unit().dtypes().compute)}};
    fmt::print("{}\n", json.dump());
    return;
  }
  fmt::print("loss {:.6f}  perplexity {:.3f}  over {} tokens with a label ({} rows of {}), weights: {}; {}, {:.1f} tokens per second\n",
             result.loss, result.perplexity(), with_commas(result.num_valid), with_commas(result.num_rows), with_commas(seq_len),
             loaded.weights, in_duration(result.seconds), static_cast<double>(result.num_tokens) / result.seconds);
}

int run(const Words& words) {
  Request request;
  Arguments arguments("trine eval", "Measures the loss and perplexity of a model on a file; every token with a label counts alike.");
  request.model.declare(arguments);
  arguments.option("--data", "FILE", request.data, "file or folder, may be repeated; without it, the held-out part of the dataset sample");
  arguments.option("--dataset", "NAME", request.dataset, "its format (jsonl, text, parquet, shards, chat); default: by the file's ending");
  arguments.option("--seq-len", "S", request.seq_len, "tokens in a row; by default 2048, or fewer if the model has fewer positions");
  arguments.option("--rows", "R", request.rows_per_batch, "rows run together");
  arguments.option("--batches", "N", request.max_batches, "stop after N batches; -1: all of the data");
  arguments.flag("--json", request.as_json, "print the figures as JSON");
  arguments.recipe_options(request.options);
  arguments.notes("Options of a recipe's [dataloader], such as --dataloader.text_field, say how the data is read.\n");
  if (!arguments.parse(words)) return 0;
  if (request.rows_per_batch < 1) throw UserError("--rows {}: must be 1 or more", request.rows_per_batch);
  if (request.max_batches == 0 || request.max_batches < -1) {
    throw UserError("--batches {}: must be 1 or more, or -1 for all", request.max_batches);
  }

  const Config config = data_config(request);
  const LoadedModel loaded = request.model.load();
  const ModelArgs& args = loaded.model->args();
  constexpr int64_t kDefaultSeqLen = 2048;
  const int64_t seq_len = request.seq_len.value_or(std::min(kDefaultSeqLen, args.max_position_embeddings));
  if (seq_len < 1 || seq_len > args.max_position_embeddings) {
    throw UserError("--seq-len {}: must be between 1 and {}, the model's max_position_embeddings", seq_len, args.max_position_embeddings);
  }
  const auto loader = make_validation_loader(config.validation, config.dataloader, seq_len, loaded.require_tokenizer(), args.vocab_size,
                                             loaded.files.assets);
  Progress progress({.label = "evaluating", .total = std::max<int64_t>(request.max_batches, 0)});
  const EvaluationResult result = evaluate(*loaded.model, *loader, request.rows_per_batch, request.max_batches, &progress);
  print_result(request, loaded, result, seq_len);
  return 0;
}

}  // namespace

const Command kEvalCommand = {"eval", "loss and perplexity of a model on a file", run};

}  // namespace trine
