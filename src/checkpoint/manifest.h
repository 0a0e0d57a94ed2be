// What a checkpoint says about itself: manifest.json, its parameters, files and slices.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/errors.h"
#include "checkpoint/slice.h"
#include "checkpoint/stored_dtype.h"

namespace trine {

inline constexpr int kCheckpointVersion = 1;
inline constexpr const char* kManifestName = "manifest.json";
inline constexpr const char* kStateName = "state.json";

// A parameter as the whole run knows it.
struct CheckpointParameter {
  std::string name;
  std::vector<int64_t> shape;
};

struct FileRecord {
  std::string name;
  uint64_t bytes = 0;
  std::string xxh3;
};

struct SliceRecord {
  Slice slice;
  StoredDtype dtype = StoredDtype::kF32;
  std::string file, key;
};

struct Manifest {
  int64_t step = 0;
  std::vector<CheckpointParameter> parameters;
  std::vector<FileRecord> files;
  std::vector<SliceRecord> slices;
};

// The checkpoint was written by a newer Trine.
class NewerFormat : public UserError {
 public:
  using UserError::UserError;
};

std::string manifest_text(const Manifest& manifest);  // carries a hash of itself

// Throws NewerFormat, or UserError saying how the manifest is damaged.
Manifest read_manifest(const std::filesystem::path& file);

// Throws UserError if the file is missing or has another size.
void check_size(const std::filesystem::path& folder, const FileRecord& record);

}  // namespace trine
