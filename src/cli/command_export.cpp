#include "base/errors.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "config/load.h"
#include "train/final_export.h"
#include "train/loaded_model.h"

namespace trine {
namespace {

int run(const Words& words) {
  std::string path, folder, dtype;
  Arguments arguments("trine export", "Writes a checkpoint as a folder that Transformers opens, and verifies it.");
  arguments.positional("RUN_OR_CHECKPOINT", path, "a run folder (its newest complete checkpoint) or .../checkpoint/step-N");
  arguments.positional("OUT_DIR", folder, "the folder to write; an earlier export there is replaced whole");
  arguments.option("--dtype", "TYPE", dtype, "float32, bfloat16 or float16; source: as the weights that the run started from; by default the run's checkpoint.export_dtype");
  if (!arguments.parse(words)) return 0;

  const ModelFiles files = find_model(path);
  if (files.run.empty()) throw UserError("{} is neither a run folder with a checkpoint nor a checkpoint: there is nothing to export", path);
  const std::filesystem::path recipe = files.run / "config.toml";
  if (!std::filesystem::exists(recipe)) {
    throw UserError("{} is missing: it says where the run's tokenizer files are. Export from the checkpoint in its run folder.", recipe.string());
  }
  const Config config = load_config(recipe, {});
  export_run(config, read_config_json(files.config), *files.weights, dtype.empty() ? config.checkpoint.export_dtype : dtype, folder);
  return 0;
}

}  // namespace

const Command kExportCommand = {"export", "write a checkpoint as a folder that Transformers opens", run};

}  // namespace trine
