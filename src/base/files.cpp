#include "base/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/errors.h"

namespace trine {

namespace fs = std::filesystem;

namespace {

std::string reason() { return std::strerror(errno); }

}  // namespace

std::string read_file(const fs::path& file) {
  const MappedFile mapped(file);
  return std::string(mapped.text());
}

MappedFile::MappedFile(const fs::path& file) : path_(file) {
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw UserError("cannot open {}: {}", file.string(), reason());
  struct stat status {};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(fd);
    throw UserError("cannot read {}: it is not a regular file", file.string());
  }
  size_ = static_cast<size_t>(status.st_size);
  if (size_ > 0) {
    void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
    if (address == MAP_FAILED) {
      const std::string why = reason();
      ::close(fd);
      throw UserError("cannot map {} ({} bytes): {}", file.string(), size_, why);
    }
    data_ = static_cast<const std::byte*>(address);
  }
  ::close(fd);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)), path_(std::move(other.path_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(path_, other.path_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

FileWriter::FileWriter(const fs::path& file, Mode mode) : path_(file) {
  fd_ = ::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | (mode == Mode::kReplace ? O_TRUNC : O_APPEND), 0644);
  if (fd_ < 0) throw UserError("cannot create {}: {}", file.string(), reason());
}

FileWriter::~FileWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void FileWriter::write(std::span<const std::byte> bytes) {
  constexpr size_t kPiece = size_t{64} << 20;
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), std::min(bytes.size(), kPiece));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      throw RunStopped("writing {} failed after {} bytes: {}; {} bytes are free there. Earlier checkpoints are untouched.", path_.string(),
                       size_, reason(), free_disk_bytes(path_));
    }
    size_ += static_cast<uint64_t>(written);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void FileWriter::sync_and_close() {
  const bool synced = ::fsync(fd_) == 0;
  const std::string why = synced ? "" : reason();
  const bool closed = ::close(std::exchange(fd_, -1)) == 0;
  if (!synced || !closed) throw RunStopped("{} could not be made durable ({} bytes): {}", path_.string(), size_, synced ? reason() : why);
}

void write_file_atomically(const fs::path& file, std::string_view content) {
  const fs::path temporary = file.string() + fmt::format(".tmp-{}", ::getpid());
  try {
    FileWriter writer(temporary);
    writer.write(content);
    writer.sync_and_close();
    fs::rename(temporary, file);
  } catch (...) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    throw;
  }
  sync_folder(file.has_parent_path() ? file.parent_path() : ".");
}

void sync_folder(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) throw RunStopped("cannot open folder {} to sync it: {}", folder.string(), reason());
  ::fsync(fd);  // some file systems refuse fsync on folders; the rename is then as durable as they make it
  ::close(fd);
}

uint64_t free_disk_bytes(const fs::path& path) {
  std::error_code ignored;
  fs::path existing = fs::absolute(path, ignored);
  while (!fs::exists(existing, ignored) && existing.has_relative_path()) existing = existing.parent_path();
  struct statvfs status {};
  if (::statvfs(existing.c_str(), &status) != 0) return 0;
  return static_cast<uint64_t>(status.f_bavail) * status.f_frsize;
}

void create_folders(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error || !fs::is_directory(folder, error)) {
    throw UserError("cannot create folder {}: {}", folder.string(), error ? error.message() : "a file of that name is in the way");
  }
}

FolderLock::FolderLock(const fs::path& folder) {
  const fs::path file = folder / ".lock";
  fd_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0) throw UserError("cannot create the lock file {}: {}", file.string(), reason());
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    char holder[64] = {};
    const ssize_t length = ::pread(fd_, holder, sizeof(holder) - 1, 0);
    ::close(std::exchange(fd_, -1));
    throw UserError("{} is in use by another run ({}). Wait for it, stop it, or choose another --job.dump_folder.", folder.string(),
                    length > 0 ? std::string(holder, static_cast<size_t>(length)) : "process unknown");
  }
  const std::string holder = fmt::format("process {}", ::getpid());
  if (::ftruncate(fd_, 0) != 0 || ::pwrite(fd_, holder.data(), holder.size(), 0) < 0) {
    throw RunStopped("cannot write the lock file {}: {}", file.string(), reason());
  }
}

FolderLock::~FolderLock() {
  if (fd_ >= 0) ::close(fd_);  // closing gives the lock back; the file stays, so that no two runs lock different inodes
}

}  // namespace trine
