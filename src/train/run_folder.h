// The folder that a run leaves behind, and where things are in it.
#pragma once

#include <filesystem>

#include "base/files.h"
#include "config/config.h"

namespace trine {

class RunFolder {
 public:
  // Creates the folder, locks it for this process, and starts its log.txt. Throws UserError if another run has it.
  explicit RunFolder(const std::filesystem::path& folder);

  // Writes the resolved configuration to config.toml.
  void keep_config(const Config& config) const;

  const std::filesystem::path& path() const { return folder_; }
  std::filesystem::path checkpoints() const { return folder_ / "checkpoint"; }
  std::filesystem::path exported() const { return folder_ / "export"; }

 private:
  std::filesystem::path folder_;
  FolderLock lock_;
};

}  // namespace trine
