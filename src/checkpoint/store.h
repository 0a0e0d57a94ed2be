// Trine's own checkpoints: `checkpoint/step-N/` with safetensors data, state.json, and a manifest of sizes and hashes.
//
// A checkpoint appears under its name only when it is whole and durable: it is written as `.tmp-step-N-PID` and renamed last. What
// `step-N` holds is therefore complete, and whatever is found otherwise was damaged later. The format is described in
// docs/checkpoint.md. This file needs no torch; saver.h puts tensors in.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/slice.h"
#include "checkpoint/weight_source.h"

namespace trine {

inline constexpr int kCheckpointVersion = 1;

// A parameter as the whole run knows it.
struct CheckpointParameter {
  std::string name;
  std::vector<int64_t> shape;
};

// A slice and its values, in host memory.
struct SliceData {
  Slice slice;
  StoredDtype dtype = StoredDtype::kF32;
  std::span<const std::byte> bytes;
};

// One file of a checkpoint as the manifest lists it.
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

// A checkpoint being written. Every writer (rank) adds files to the same temporary folder; the one that created it publishes.
class CheckpointWriter {
 public:
  // `folder`: .../checkpoint. Creates `.tmp-step-N-PID` in it. Throws RunStopped if `bytes_expected` do not fit on the disk.
  CheckpointWriter(std::filesystem::path folder, int64_t step, uint64_t bytes_expected);
  ~CheckpointWriter();  // removes the temporary folder unless published
  CheckpointWriter(const CheckpointWriter&) = delete;

  // Writes one safetensors file per kind, `KIND-WRITER.safetensors`, and makes them durable.
  void write_slices(const std::vector<SliceData>& slices, int writer = 0);
  // A small file beside them, such as the model's config.json.
  void write_side_file(const std::string& name, std::string_view content);
  // Writes state.json and the manifest, checks that the slices cover every parameter, renames the folder to `step-N` and makes that
  // durable. An unusable `step-N` in the way is replaced. Returns the published folder.
  std::filesystem::path publish(const std::vector<CheckpointParameter>& parameters, const Json& state);

 private:
  std::filesystem::path folder_, temporary_;
  int64_t step_;
  bool published_ = false;
  std::vector<FileRecord> files_;
  std::vector<SliceRecord> slices_;
};

// A complete checkpoint, opened for reading.
class CheckpointReader {
 public:
  // `folder`: .../step-N. Checks the manifest, and every file's size and hash (`kinds`: of these kinds only; empty: all). Throws
  // UserError saying what is wrong; a newer format version says so.
  explicit CheckpointReader(const std::filesystem::path& folder, const std::vector<std::string>& kinds = {});

  const std::filesystem::path& folder() const { return folder_; }
  int64_t step() const { return step_; }
  const Json& state() const { return state_; }
  const std::vector<CheckpointParameter>& parameters() const { return parameters_; }
  const std::vector<FileRecord>& files() const { return files_; }
  const std::vector<SliceRecord>& slices() const { return slices_; }
  std::vector<std::string> kinds() const;
  const CheckpointParameter* find(std::string_view parameter) const;
  std::optional<StoredDtype> dtype(const std::string& parameter, const std::string& kind) const;  // unset if not stored

  // Copies the values of `wanted` (any layout's slice) into `out`, in the stored type. Throws UserError if the checkpoint does not
  // hold them.
  void read(const Slice& wanted, std::span<std::byte> out) const;
  // The same as pieces, for a flat range of the parameter, ascending.
  void visit(const std::string& parameter, const std::string& kind, int64_t first, int64_t last, const WeightSource::Take& take) const;

 private:
  struct Piece;
  std::vector<Piece> pieces(const std::string& parameter, const std::string& kind) const;
  const SafetensorsFile& file(const std::string& name) const;

  std::filesystem::path folder_;
  int64_t step_ = 0;
  Json state_;
  std::vector<CheckpointParameter> parameters_;
  std::vector<FileRecord> files_;
  std::vector<SliceRecord> slices_;
  std::map<std::string, std::unique_ptr<SafetensorsFile>> data_;
  std::map<std::pair<std::string, std::string>, std::vector<size_t>> by_parameter_;  // (parameter, kind) -> slices_
};

// The weights of a checkpoint as a source for loading, exporting and comparing.
class CheckpointWeights : public WeightSource {
 public:
  explicit CheckpointWeights(const std::filesystem::path& folder);  // .../step-N; only the weights are read and verified

  std::string description() const override;
  const std::vector<StoredTensor>& tensors() const override { return tensors_; }
  const std::vector<std::string>& notes() const override { return notes_; }
  void visit(const StoredTensor& tensor, int64_t first, int64_t last, const Take& take) const override;
  const CheckpointReader& reader() const { return reader_; }

 private:
  CheckpointReader reader_;
  std::vector<StoredTensor> tensors_;
  std::vector<std::string> notes_;
};

}  // namespace trine
