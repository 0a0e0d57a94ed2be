#include "train/final_export.h"

#include <algorithm>

#include "base/format.h"
#include "base/log.h"
#include "checkpoint/export_hf.h"
#include "text/tokenizer.h"

namespace trine {
namespace {

namespace fs = std::filesystem;

// The end tokens of an export. Chats end their turns with <|im_end|>; generation must stop there.
std::vector<int64_t> end_tokens(const Config& config, const ModelArgs& args) {
  std::vector<int64_t> ids = args.eos_token_ids;
  if (!fs::exists(fs::path(config.model.hf_assets_path) / "tokenizer.json")) return ids;
  const Tokenizer tokenizer = Tokenizer::from_folder(config.model.hf_assets_path);
  const auto& datasets = config.dataloader.dataset;
  const bool chats = std::find(datasets.begin(), datasets.end(), "chat") != datasets.end();
  const auto end_of_turn = tokenizer.token_id("<|im_end|>");
  if (chats && end_of_turn && std::find(ids.begin(), ids.end(), *end_of_turn) == ids.end()) {
    ids.insert(ids.begin(), *end_of_turn);
    log::warning("trained on chats: config.json's eos_token_id now begins with {} (<|im_end|>). If generation_config.json names another "
                 "end token, change it too.", *end_of_turn);
  }
  if (ids.empty() && tokenizer.eos_token_id()) ids.push_back(*tokenizer.eos_token_id());
  return ids;
}

}  // namespace

void export_run(const Config& config, const ModelArgs& args, const WeightSource& weights, const std::string& dtype, const fs::path& folder) {
  const fs::path source = config.model.hf_assets_path;
  const StoredDtype stored = resolve_export_dtype(dtype, source, StoredDtype::kBF16);
  ModelArgs exported = args;
  exported.eos_token_ids = end_tokens(config, args);
  const ExportReport report =
      export_hf(folder, weights,
                {.dtype = stored,
                 .source_folder = source,
                 .config_json = write_config_json(exported, source / "config.json", std::string(config_dtype_name(stored)))});
  log::info("exported {} tensors ({}) to {}, reopened and verified", report.tensors, in_bytes(report.bytes), report.folder.string());
  for (const std::string& note : report.notes) log::info("{}", note);
}

}  // namespace trine
