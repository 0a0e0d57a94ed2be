#include "train/run_folder.h"

#include "base/log.h"
#include "config/describe.h"

namespace trine {
namespace {

const std::filesystem::path& created(const std::filesystem::path& folder) {
  create_folders(folder);
  return folder;
}

}  // namespace

RunFolder::RunFolder(const std::filesystem::path& folder) : folder_(created(folder)), lock_(folder_) {
  log::also_to_file(folder_ / "log.txt");
}

void RunFolder::keep_config(const Config& config) const { write_file_atomically(folder_ / "config.toml", resolved_toml(config)); }

}  // namespace trine
