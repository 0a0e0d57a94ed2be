// The export at the end of a run: a folder that Transformers opens.
#pragma once

#include <filesystem>

#include "config/config.h"
#include "model/segments.h"
#include "text/tokenizer.h"

namespace trine {

// Writes the master values in checkpoint.export_dtype with config.json and the tokenizer files of hf_assets_path, and says what was
// written. After training on chats, the exported end tokens include the one that closes a turn (case A11).
void export_final(const Config& config, Model& model, const Tokenizer& tokenizer, const std::filesystem::path& folder);

}  // namespace trine
