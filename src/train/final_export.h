// Exports of a run: a folder that Transformers opens, at the end of training or later from a checkpoint.
#pragma once

#include <filesystem>
#include <string>

#include "checkpoint/weight_source.h"
#include "config/config.h"
#include "model/model_args.h"

namespace trine {

// Writes `weights` to `folder` in `dtype` ("source", "float32", "bfloat16" or "float16") with config.json and the tokenizer files of the
// run's hf_assets_path, and says what was written. After training on chats, the exported end tokens include the one that closes a turn
// (case A11).
void export_run(const Config& config, const ModelArgs& args, const WeightSource& weights, const std::string& dtype,
                const std::filesystem::path& folder);

}  // namespace trine
