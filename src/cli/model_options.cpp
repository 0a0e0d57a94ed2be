#include "cli/model_options.h"

#include "base/errors.h"

namespace trine {

void ModelOptions::declare(Arguments& arguments) {
  arguments.positional("MODEL", path, "a Hugging Face folder, a run folder, or a checkpoint (.../checkpoint/step-N)");
  arguments.option("--dtype", "TYPE", dtype, "float32 or bfloat16; by default as the weights are stored, bfloat16 for a random start");
  arguments.flag("--random", random, "a random start of MODEL's sizes; its weights are not read");
  arguments.option("--flavor", "NAME", flavor, "a random start of this flavor's sizes (\"4B\"); MODEL gives the tokenizer");
  arguments.option("--seed", "N", seed, "of a random start, and of sampling");
}

LoadedModel ModelOptions::load() const {
  LoadedModelOptions options{.random = random || !flavor.empty(), .flavor = flavor, .seed = static_cast<uint64_t>(seed)};
  if (dtype == "bfloat16") {
    options.dtype = at::kBFloat16;
  } else if (dtype == "float32") {
    options.dtype = at::kFloat;
  } else if (!dtype.empty()) {
    throw UserError("--dtype {}: must be float32 or bfloat16", dtype);
  }
  return load_model(path, options);
}

}  // namespace trine
