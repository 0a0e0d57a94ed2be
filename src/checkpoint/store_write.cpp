#include <algorithm>
#include <stdexcept>

#include "base/errors.h"
#include "base/files.h"
#include "base/format.h"
#include "base/hashing.h"
#include "checkpoint/safetensors_writer.h"
#include "checkpoint/store.h"

namespace trine {

namespace fs = std::filesystem;

namespace {

// What a checkpoint of so many bytes of tensors takes with manifest, state and the file system's own.
uint64_t with_overhead(uint64_t bytes) { return bytes + bytes / 100 + 65536; }

// The name of a slice inside its file: the parameter's, with the cuts if there are any.
std::string key_of(const SliceData& data) {
  const Slice& slice = data.slice;
  if (slice.count() == element_count(data.shape)) return slice.parameter;
  return fmt::format("{}@dim{}[{}:{}][{}:{}]", slice.parameter, slice.dim, slice.part_begin, slice.part_end, slice.begin, slice.end);
}

const fs::path& with_room(const fs::path& folder, int64_t step, uint64_t bytes) {
  if (const uint64_t free = free_disk_bytes(folder); free < with_overhead(bytes)) {
    throw RunStopped(
        "checkpoint of step {} needs {} in {}, where {} are free. Earlier checkpoints are untouched. Free some space, or lower "
        "checkpoint.keep_latest_k.",
        step, in_bytes(with_overhead(bytes)), folder.string(), in_bytes(free));
  }
  return folder;
}

}  // namespace

CheckpointWriter::CheckpointWriter(const fs::path& folder, int64_t step, uint64_t bytes_expected)
    : temporary_(with_room(folder, step, bytes_expected), fmt::format("step-{}", step)) {
  manifest_.step = step;
}

void CheckpointWriter::write_slices(const std::vector<SliceData>& slices, int writer) {
  std::vector<std::pair<std::string, std::vector<const SliceData*>>> by_kind;
  for (const SliceData& data : slices) {
    auto place = std::find_if(by_kind.begin(), by_kind.end(), [&](const auto& kind) { return kind.first == data.slice.kind; });
    if (place == by_kind.end()) place = by_kind.insert(place, {data.slice.kind, {}});
    place->second.push_back(&data);
  }
  for (const auto& [kind, members] : by_kind) write_kind(kind, members, writer);
}

void CheckpointWriter::write_kind(const std::string& kind, const std::vector<const SliceData*>& slices, int writer) {
  const std::string name = fmt::format("{}-{:05}.safetensors", kind, writer);
  std::vector<TensorDeclaration> declarations;
  std::map<std::string, const SliceData*> by_key;
  for (const SliceData* data : slices) {
    const Slice& slice = data->slice;
    if (static_cast<uint64_t>(slice.count() * dtype_bits(data->dtype) / 8) != data->bytes.size()) {
      throw std::logic_error(fmt::format("slice of {} has {} bytes for {} elements", slice.parameter, data->bytes.size(), slice.count()));
    }
    const std::string key = key_of(*data);
    declarations.push_back({key, data->dtype, key == slice.parameter ? data->shape : std::vector<int64_t>{slice.count()}});
    by_key[key] = data;
    manifest_.slices.push_back({slice, data->dtype, name, key});
  }
  SafetensorsWriter file(temporary_.path() / name, std::move(declarations));
  for (const TensorEntry& entry : file.entries()) file.write(by_key.at(entry.name)->bytes);
  file.finish();
  manifest_.files.push_back({name, file.file_bytes(), file.hash()});
}

void CheckpointWriter::write_side_file(const std::string& name, std::string_view content) {
  FileWriter file(temporary_.path() / name);
  file.write(content);
  file.sync_and_close();
  manifest_.files.push_back({name, content.size(), xxh3_hex(std::as_bytes(std::span(content)))});
}

fs::path CheckpointWriter::publish(const std::vector<CheckpointParameter>& parameters, const Json& state) {
  manifest_.parameters = parameters;
  std::map<std::string, std::map<std::string, std::vector<Slice>>> held;  // parameter -> kind -> slices
  for (const SliceRecord& record : manifest_.slices) held[record.slice.parameter][record.slice.kind].push_back(record.slice);
  for (const CheckpointParameter& parameter : parameters) {
    auto& kinds = held[parameter.name];
    kinds[kMaster];  // the weights of every parameter must be there
    for (auto& [kind, slices] : kinds) {
      if (const std::string fault = tiling_fault(slices, parameter.shape); !fault.empty()) {
        throw std::logic_error(fmt::format("checkpoint: {} of {}: {}", kind, parameter.name, fault));
      }
    }
  }
  if (held.size() != parameters.size()) throw std::logic_error("checkpoint: slices of a parameter that is not listed");

  write_side_file(kStateName, state.dump(1) + "\n");
  FileWriter file(temporary_.path() / kManifestName);
  file.write(manifest_text(manifest_));
  file.sync_and_close();
  return temporary_.publish(fmt::format("step-{}", manifest_.step));
}

}  // namespace trine
