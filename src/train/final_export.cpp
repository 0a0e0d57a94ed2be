#include "train/final_export.h"

#include <algorithm>

#include "base/format.h"
#include "base/log.h"
#include "checkpoint/export_hf.h"

namespace trine {
namespace {

// The end tokens of an export. Chats end their turns with <|im_end|>; generation must stop there.
std::vector<int64_t> end_tokens(const Config& config, const ModelArgs& args, const Tokenizer& tokenizer) {
  std::vector<int64_t> ids = args.eos_token_ids;
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

void export_final(const Config& config, Model& model, const Tokenizer& tokenizer, const std::filesystem::path& folder) {
  const std::filesystem::path source = config.model.hf_assets_path;
  const StoredDtype dtype = resolve_export_dtype(config.checkpoint.export_dtype, source, StoredDtype::kBF16);
  ModelArgs args = model.args();
  args.eos_token_ids = end_tokens(config, args, tokenizer);
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (const Parameter* parameter : model.parameters()) tensors.emplace_back(parameter->name, parameter->master);
  const ExportReport report = export_hf(folder, TensorWeights(std::move(tensors)),
                                        {.dtype = dtype,
                                         .source_folder = source,
                                         .config_json = write_config_json(args, source / "config.json", std::string(config_dtype_name(dtype)))});
  log::info("exported {} tensors ({}) to {}, reopened and verified", report.tensors, in_bytes(report.bytes), report.folder.string());
  for (const std::string& note : report.notes) log::info("{}", note);
}

}  // namespace trine
