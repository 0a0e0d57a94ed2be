// Trine's own checkpoints: `checkpoint/step-N/` with safetensors data, state.json, and a manifest of sizes and hashes.
//
// A checkpoint appears under its name only when it is whole and durable: it is written as `.tmp-step-N-PID` and renamed last. What
// `step-N` holds is therefore complete, and whatever is found otherwise was damaged later. The format is described in
// docs/checkpoint.md. This file needs no torch; saver.h puts tensors in.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/manifest.h"
#include "checkpoint/slice.h"
#include "checkpoint/temporary_folder.h"
#include "checkpoint/weight_source.h"

namespace trine {

// A slice and its values, in host memory.
struct SliceData {
  Slice slice;
  std::vector<int64_t> shape;  // of the whole parameter
  StoredDtype dtype = StoredDtype::kF32;
  std::span<const std::byte> bytes;
};

// A checkpoint being written. Every writer (rank) adds files to the same temporary folder; the one that created it publishes.
class CheckpointWriter {
 public:
  // `folder`: .../checkpoint. Creates `.tmp-step-N-PID` in it. Throws RunStopped if `bytes_expected` do not fit on the disk.
  CheckpointWriter(const std::filesystem::path& folder, int64_t step, uint64_t bytes_expected);

  // Writes one safetensors file per kind, `KIND-WRITER.safetensors`, and makes them durable.
  void write_slices(const std::vector<SliceData>& slices, int writer = 0);
  // A small file beside them, such as the model's config.json.
  void write_side_file(const std::string& name, std::string_view content);
  // Writes state.json and the manifest, checks that the slices of every kind hold each of its parameters once, that the weights are
  // all there, renames the folder to `step-N` and makes that durable. A `step-N` in the way is replaced. Returns the published folder.
  std::filesystem::path publish(const std::vector<CheckpointParameter>& parameters, const Json& state);

 private:
  void write_kind(const std::string& kind, const std::vector<const SliceData*>& slices, int writer);

  TemporaryFolder temporary_;
  Manifest manifest_;
};

// A complete checkpoint, opened for reading.
class CheckpointReader {
 public:
  // `folder`: .../step-N. Checks the manifest, and every file's size and hash (`kinds`: of these kinds only; empty: all). Throws
  // UserError saying what is wrong; a newer format version says so.
  explicit CheckpointReader(const std::filesystem::path& folder, const std::vector<std::string>& kinds = {});

  const std::filesystem::path& folder() const { return folder_; }
  int64_t step() const { return manifest_.step; }
  const Json& state() const { return state_; }
  const Manifest& manifest() const { return manifest_; }
  const std::vector<CheckpointParameter>& parameters() const { return manifest_.parameters; }
  std::vector<std::string> kinds() const;
  const CheckpointParameter* find(const std::string& parameter) const;                          // null if absent
  std::optional<StoredDtype> dtype(const std::string& parameter, const std::string& kind) const;  // unset if not stored
  std::string side_file(const std::string& name) const;  // its content; throws UserError if the checkpoint has none of that name

  // Copies the values of `wanted` (any layout's slice) into `out`, in the stored type. Throws UserError if the checkpoint does not
  // hold them.
  void read(const Slice& wanted, std::span<std::byte> out) const;

  // Pieces that cover elements [first, last) of a parameter, ascending, as WeightSource::visit gives them.
  void visit(const std::string& parameter, const std::string& kind, int64_t first, int64_t last, const WeightSource::Take& take) const;

 private:
  using Key = std::pair<std::string, std::string>;  // parameter, kind

  void verify_files(const std::vector<std::string>& kinds);
  void index_slices();
  const CheckpointParameter& stored_parameter(const std::string& parameter, const std::string& kind) const;
  void visit_runs(const CheckpointParameter& parameter, const std::string& kind, const std::vector<Run>& wanted,
                  const std::function<void(const Run& run, std::span<const std::byte> bytes)>& take) const;

  std::filesystem::path folder_;
  Manifest manifest_;
  Json state_;
  std::map<std::string, std::unique_ptr<SafetensorsFile>> data_;  // by file name; of the kinds asked for
  std::map<std::string, const CheckpointParameter*> parameters_;
  std::map<Key, std::vector<const SliceRecord*>> slices_;
};

// The weights of a checkpoint as a source for loading, exporting and comparing.
class CheckpointWeights : public WeightSource {
 public:
  explicit CheckpointWeights(const std::filesystem::path& folder);  // .../step-N; only the weights are read and verified
  explicit CheckpointWeights(CheckpointReader reader);

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
