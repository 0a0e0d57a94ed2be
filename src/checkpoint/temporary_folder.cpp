#include "checkpoint/temporary_folder.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/errors.h"
#include "base/files.h"
#include "base/log.h"

namespace trine {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kPrefix = ".tmp-";

fs::path temporary_path(const fs::path& parent, const std::string& name) {
  return parent / fmt::format("{}{}-{}", kPrefix, name, ::getpid());
}

void rename_or_stop(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) {
    throw RunStopped("cannot rename {} to {}: {}", from.string(), to.string(), std::strerror(errno));
  }
}

void remove_quietly(const fs::path& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  if (error) log::warning("{} could not be removed: {}", folder.string(), error.message());
}

bool runs(pid_t pid) { return ::kill(pid, 0) == 0 || errno == EPERM; }

}  // namespace

TemporaryFolder::TemporaryFolder(const fs::path& parent, const std::string& name)
    : parent_(parent), path_(temporary_path(parent, name)) {
  create_folders(parent_);
  remove_quietly(path_);
  create_folders(path_);
}

TemporaryFolder::~TemporaryFolder() {
  if (!published_) remove_quietly(path_);
}

fs::path TemporaryFolder::publish(const std::string& destination) {
  const fs::path target = parent_ / destination;
  sync_folder(path_);
  std::error_code ignored;
  if (!fs::exists(target, ignored)) {
    rename_or_stop(path_, target);
    published_ = true;
  } else if (::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) != 0) {
    // No exchange on this file system: between these two renames neither folder has the name, and a crash leaves the older steps.
    const fs::path old = temporary_path(parent_, "old-" + destination);
    remove_quietly(old);
    rename_or_stop(target, old);
    rename_or_stop(path_, target);
    published_ = true;
    remove_quietly(old);
  }  // after an exchange path_ is the old folder, which the destructor removes
  sync_folder(parent_);
  return target;
}

void remove_folder_atomically(const fs::path& folder) {
  const fs::path doomed = temporary_path(folder.parent_path(), "delete-" + folder.filename().string());
  remove_quietly(doomed);
  rename_or_stop(folder, doomed);
  remove_quietly(doomed);
}

void remove_dead_temporaries(const fs::path& parent) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(parent, ignored)) {
    const std::string name = entry.path().filename().string();
    const size_t dash = name.rfind('-');
    pid_t pid = 0;
    if (!name.starts_with(kPrefix)) continue;
    const auto [end, error] = std::from_chars(name.data() + dash + 1, name.data() + name.size(), pid);
    if (error != std::errc() || end != name.data() + name.size() || pid <= 0) continue;
    if (pid != ::getpid() && runs(pid)) continue;
    log::info("removing {}, left behind by a process that ended while writing", entry.path().string());
    remove_quietly(entry.path());
  }
}

}  // namespace trine
