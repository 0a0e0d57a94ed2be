// What a MODEL word on a command line names, and the model it becomes, ready for inference.
//
// A Hugging Face folder, a run folder (its newest complete checkpoint), or a checkpoint. With a random start only sizes and tokenizer
// are taken from there.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/load_weights.h"
#include "checkpoint/weight_source.h"
#include "model/segments.h"
#include "text/tokenizer.h"

namespace trine {

// Where the parts of a model lie. Empty or null: there is none.
struct ModelFiles {
  std::filesystem::path folder;           // as the user named it; of a run without checkpoints, its export
  std::filesystem::path config;           // config.json
  std::filesystem::path assets;           // the folder with tokenizer.json and the chat template
  std::filesystem::path run;              // the run folder that a checkpoint lies in
  std::unique_ptr<WeightSource> weights;  // opened and, if a checkpoint, verified
};

// Throws UserError if `path` holds no model of any kind.
ModelFiles find_model(const std::filesystem::path& path);

struct LoadedModelOptions {
  // Of the parameters. Unset: the type that most weights are stored in (float32 for float16), bfloat16 for a random start.
  std::optional<at::ScalarType> dtype;
  bool random = false;                  // initial values from `seed` instead of stored weights
  std::string flavor;                   // the sizes of a flavor instead of config.json's; needs `random`
  uint64_t seed = 0;
};

struct LoadedModel {
  ModelFiles files;
  std::unique_ptr<Model> model;
  std::string weights;                 // where the values come from, in words
  std::optional<Tokenizer> tokenizer;  // none if there are no tokenizer files
  std::vector<int64_t> eos_token_ids;  // generation stops at these: config.json's and generation_config.json's, else the tokenizer's

  // The tokenizer; throws UserError saying that the command needs one.
  const Tokenizer& require_tokenizer() const;
};

// One buffer holds the parameters (no master copy, no gradients). Logs what was loaded, or RANDOM INIT.
LoadedModel load_model(const std::filesystem::path& path, const LoadedModelOptions& options);

// Fills every parameter of `model` from `source` and logs "loaded 311/311 tensors from ...". Throws UserError for a key too many or
// too few.
void load_parameters(Model& model, const WeightSource& source);

// Fills every parameter randomly and logs RANDOM INIT with the loss to expect.
void initialize_randomly(Model& model, uint64_t seed);

}  // namespace trine
