#include <algorithm>
#include <cstring>
#include <future>
#include <set>
#include <stdexcept>

#include "base/errors.h"
#include "base/files.h"
#include "base/hashing.h"
#include "checkpoint/store.h"

namespace trine {

namespace fs = std::filesystem;

namespace {

// Hashes a mapped file in pieces and gives its pages back, so that checking a checkpoint does not fill memory.
std::string hash_of(std::span<const std::byte> mapped) {
  constexpr size_t kPiece = size_t{16} << 20;
  Xxh3 hash;
  for (size_t at = 0; at < mapped.size(); at += kPiece) {
    const auto piece = mapped.subspan(at, std::min(kPiece, mapped.size() - at));
    hash.update(piece);
    release_mapped_pages(piece);
  }
  return hash.hex();
}

void check_hash(const fs::path& folder, const FileRecord& record, std::span<const std::byte> content) {
  if (hash_of(content) != record.xxh3) {
    throw UserError("{} does not match its hash in the manifest; the disk or a copy damaged it", (folder / record.name).string());
  }
}

}  // namespace

CheckpointReader::CheckpointReader(const fs::path& folder, const std::vector<std::string>& kinds)
    : folder_(folder), manifest_(read_manifest(folder / kManifestName)) {
  verify_files(kinds);
  state_ = read_json_file(folder_ / kStateName);
  index_slices();
}

// Sizes of all files; hashes of those that will be read, side by side.
void CheckpointReader::verify_files(const std::vector<std::string>& kinds) {
  std::set<std::string> all_data, wanted_data;
  for (const SliceRecord& record : manifest_.slices) {
    all_data.insert(record.file);
    if (kinds.empty() || std::find(kinds.begin(), kinds.end(), record.slice.kind) != kinds.end()) wanted_data.insert(record.file);
  }
  std::vector<std::future<void>> checks;
  std::set<std::string> listed;
  for (const FileRecord& record : manifest_.files) {
    check_size(folder_, record);
    listed.insert(record.name);
    if (wanted_data.contains(record.name)) {
      auto& file = data_[record.name] = std::make_unique<SafetensorsFile>(folder_ / record.name);
      checks.push_back(std::async(std::launch::async, [&] { check_hash(folder_, record, file->all_bytes()); }));
    } else if (!all_data.contains(record.name)) {
      check_hash(folder_, record, MappedFile(folder_ / record.name).bytes());
    }
  }
  for (auto& check : checks) check.get();
  if (!listed.contains(kStateName)) throw UserError("{}: the manifest lists no {}", folder_.string(), kStateName);
  for (const std::string& name : all_data) {
    if (!listed.contains(name)) throw UserError("{}: slices lie in {}, which the manifest does not list", folder_.string(), name);
  }
}

// Checks every slice against its file and every parameter's slices against its shape, so that reading can rely on both.
void CheckpointReader::index_slices() {
  for (const CheckpointParameter& parameter : manifest_.parameters) parameters_[parameter.name] = &parameter;
  for (const SliceRecord& record : manifest_.slices) {
    const auto file = data_.find(record.file);
    if (file == data_.end()) continue;  // of a kind that was not asked for
    const auto fail = [&](const std::string& what) {
      return UserError("{}: {} of {}: {}", folder_.string(), record.slice.kind, record.slice.parameter, what);
    };
    const auto parameter = parameters_.find(record.slice.parameter);
    if (parameter == parameters_.end()) throw fail("the manifest does not list this parameter");
    if (const std::string fault = slice_fault(record.slice, parameter->second->shape); !fault.empty()) throw fail(fault);
    const TensorEntry* entry = file->second->find(record.key);
    if (!entry) throw fail(fmt::format("{} has no tensor {}", record.file, record.key));
    if (entry->dtype != record.dtype || element_count(entry->shape) != record.slice.count()) {
      throw fail(fmt::format("tensor {} in {} has another type or size than the manifest says", record.key, record.file));
    }
    auto& slices = slices_[{record.slice.parameter, record.slice.kind}];
    if (!slices.empty() && slices.front()->dtype != record.dtype) throw fail("its slices have different types");
    slices.push_back(&record);
  }
  for (const auto& [key, records] : slices_) {
    std::vector<Slice> slices;
    for (const SliceRecord* record : records) slices.push_back(record->slice);
    if (const std::string fault = tiling_fault(std::move(slices), parameters_.at(key.first)->shape); !fault.empty()) {
      throw UserError("{}: {} of {}: {}", folder_.string(), key.second, key.first, fault);
    }
  }
}

std::vector<std::string> CheckpointReader::kinds() const {
  std::set<std::string> kinds;
  for (const SliceRecord& record : manifest_.slices) kinds.insert(record.slice.kind);
  return {kinds.begin(), kinds.end()};
}

const CheckpointParameter* CheckpointReader::find(const std::string& parameter) const {
  const auto found = parameters_.find(parameter);
  return found == parameters_.end() ? nullptr : found->second;
}

std::optional<StoredDtype> CheckpointReader::dtype(const std::string& parameter, const std::string& kind) const {
  const auto found = slices_.find({parameter, kind});
  if (found == slices_.end()) return std::nullopt;
  return found->second.front()->dtype;
}

std::string CheckpointReader::side_file(const std::string& name) const {
  for (const FileRecord& record : manifest_.files) {
    if (record.name == name) return read_file(folder_ / name);
  }
  throw UserError("checkpoint {} holds no {}", folder_.string(), name);
}

const CheckpointParameter& CheckpointReader::stored_parameter(const std::string& parameter, const std::string& kind) const {
  if (slices_.contains({parameter, kind})) return *parameters_.at(parameter);
  std::vector<std::string> names;
  for (const auto& [name, unused] : parameters_) names.push_back(name);
  if (parameters_.contains(parameter)) throw UserError("checkpoint {} holds no {} of {}", folder_.string(), kind, parameter);
  throw UserError("checkpoint {} holds no parameter {}.{}", folder_.string(), parameter, suggest(parameter, names));
}

// Intersects the wanted runs with the stored ones; both ascend, so one pass is enough. `take` gets runs whose in_slice counts in the
// wanted slice.
void CheckpointReader::visit_runs(const CheckpointParameter& parameter, const std::string& kind, const std::vector<Run>& wanted,
                                  const std::function<void(const Run& run, std::span<const std::byte> bytes)>& take) const {
  struct Stored {
    Run run;
    const SliceRecord* record;
  };
  std::vector<Stored> stored;
  for (const SliceRecord* record : slices_.at({parameter.name, kind})) {
    for (const Run& run : runs_of(record->slice, parameter.shape)) stored.push_back({run, record});
  }
  std::sort(stored.begin(), stored.end(), [](const Stored& a, const Stored& b) { return a.run.in_parameter < b.run.in_parameter; });
  size_t at = 0;
  for (const Run& want : wanted) {
    const int64_t end = want.in_parameter + want.count;
    while (at < stored.size() && stored[at].run.in_parameter + stored[at].run.count <= want.in_parameter) ++at;
    for (size_t i = at; i < stored.size() && stored[i].run.in_parameter < end; ++i) {
      const auto& [run, record] = stored[i];
      const int64_t first = std::max(run.in_parameter, want.in_parameter);
      const int64_t count = std::min(run.in_parameter + run.count, end) - first;
      const auto width = static_cast<size_t>(dtype_bits(record->dtype) / 8);
      const SafetensorsFile& file = *data_.at(record->file);
      const auto bytes =
          file.data(*file.find(record->key))
              .subspan(static_cast<size_t>(run.in_slice + first - run.in_parameter) * width, static_cast<size_t>(count) * width);
      take({first, want.in_slice + first - want.in_parameter, count}, bytes);
      release_mapped_pages(bytes);
    }
  }
}

void CheckpointReader::read(const Slice& wanted, std::span<std::byte> out) const {
  const CheckpointParameter& parameter = stored_parameter(wanted.parameter, wanted.kind);
  if (const std::string fault = slice_fault(wanted, parameter.shape); !fault.empty()) {
    throw UserError("checkpoint {}: {} of {}: asked for {}", folder_.string(), wanted.kind, wanted.parameter, fault);
  }
  const auto width = static_cast<size_t>(dtype_bits(*dtype(wanted.parameter, wanted.kind)) / 8);
  if (out.size() != static_cast<size_t>(wanted.count()) * width) throw std::logic_error("destination size differs from the slice's");
  visit_runs(parameter, wanted.kind, runs_of(wanted, parameter.shape), [&](const Run& run, std::span<const std::byte> bytes) {
    std::memcpy(out.data() + static_cast<size_t>(run.in_slice) * width, bytes.data(), bytes.size());
  });
}

void CheckpointReader::visit(const std::string& parameter, const std::string& kind, int64_t first, int64_t last,
                             const WeightSource::Take& take) const {
  const CheckpointParameter& stored = stored_parameter(parameter, kind);
  visit_runs(stored, kind, {{first, 0, last - first}},
             [&](const Run& run, std::span<const std::byte> bytes) { take(run.in_parameter, bytes); });
}

CheckpointWeights::CheckpointWeights(const fs::path& folder) : CheckpointWeights(CheckpointReader(folder, {kMaster})) {}

CheckpointWeights::CheckpointWeights(CheckpointReader reader) : reader_(std::move(reader)) {
  for (const CheckpointParameter& parameter : reader_.parameters()) {
    const auto dtype = reader_.dtype(parameter.name, kMaster);
    if (!dtype) throw UserError("checkpoint {} holds no weights of {}", reader_.folder().string(), parameter.name);
    tensors_.push_back({parameter.name, *dtype, parameter.shape, reader_.folder().string()});
  }
}

std::string CheckpointWeights::description() const { return fmt::format("{} (step {})", reader_.folder().string(), reader_.step()); }

void CheckpointWeights::visit(const StoredTensor& tensor, int64_t first, int64_t last, const Take& take) const {
  reader_.visit(tensor.name, kMaster, first, last, take);
}

}  // namespace trine
