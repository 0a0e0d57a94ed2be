// A folder that appears under its name only when it is whole: written under a temporary name beside it, then renamed.
#pragma once

#include <filesystem>
#include <string>

namespace trine {

class TemporaryFolder {
 public:
  // Creates `parent/.tmp-NAME-PID` (and `parent`).
  TemporaryFolder(const std::filesystem::path& parent, const std::string& name);
  ~TemporaryFolder();  // removes it unless published
  TemporaryFolder(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // Makes the folder durable and renames it to `parent/destination`. A folder of that name is replaced, in one step where the file
  // system can. The files in it must be durable already. Throws RunStopped.
  std::filesystem::path publish(const std::string& destination);

 private:
  std::filesystem::path parent_, path_;
  bool published_ = false;
};

// Removes a folder so that no crash can leave half of it under its name.
void remove_folder_atomically(const std::filesystem::path& folder);

// Removes the temporary folders in `parent` whose processes no longer run, or had this process's number before it.
void remove_dead_temporaries(const std::filesystem::path& parent);

}  // namespace trine
