// Files as a training run needs them: mapped for reading, and written so that a crash leaves the old content or the new, never half.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace trine {

// The whole content of a file. Throws UserError naming the file and the system's reason.
std::string read_file(const std::filesystem::path& file);

// A file mapped read-only. Move-only; the bytes stay valid as long as the object lives.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const std::filesystem::path& file);  // throws UserError
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  const std::filesystem::path& path() const { return path_; }

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  std::filesystem::path path_;
};

// A file being written in order. Every write is checked; a full disk becomes RunStopped with path and sizes.
class FileWriter {
 public:
  enum class Mode { kReplace, kAppend };
  explicit FileWriter(const std::filesystem::path& file, Mode mode = Mode::kReplace);  // created if missing; throws UserError
  FileWriter(const FileWriter&) = delete;
  ~FileWriter();

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  void sync_and_close();  // fsync; the file is complete only after this
  uint64_t size() const { return size_; }  // bytes written through this object

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  uint64_t size_ = 0;
};

// Replaces `file` with `content` whole or not at all: temporary name beside it, fsync, rename, fsync of the folder.
void write_file_atomically(const std::filesystem::path& file, std::string_view content);

// Makes a rename or creation inside `folder` durable.
void sync_folder(const std::filesystem::path& folder);

// Bytes free for this user on the file system of `path` (or of its nearest existing parent).
uint64_t free_disk_bytes(const std::filesystem::path& path);

// Creates `folder` and its parents. Throws UserError with the reason.
void create_folders(const std::filesystem::path& folder);

// An exclusive lock on a folder, held by this process until the object goes. The lock file names the holder.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder);  // throws UserError naming the process that holds it
  FolderLock(const FolderLock&) = delete;
  ~FolderLock();

 private:
  int fd_ = -1;
};

}  // namespace trine
