#include "checkpoint/manifest.h"

#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/hashing.h"
#include "base/json.h"

namespace trine {
namespace {

constexpr const char* kFormatName = "trine-checkpoint";
constexpr const char* kHashKey = "manifest_xxh3";

std::string hash_of(const Json& manifest) {
  const std::string text = manifest.dump();  // keys sorted: the same for the same content
  return xxh3_hex(std::as_bytes(std::span(text)));
}

// `"key": [` one element per line `]`, so that a manifest of thousands of slices can be read and compared by eye.
std::string lines(const char* key, const Json& list) {
  std::string text = fmt::format(",\n\"{}\": [", key);
  for (size_t i = 0; i < list.size(); ++i) text += (i ? ",\n  " : "\n  ") + list[i].dump();
  return text + "]";
}

Manifest from_json(const Json& json) {
  Manifest manifest;
  manifest.step = json.at("step").get<int64_t>();
  for (const Json& row : json.at("parameters")) {
    manifest.parameters.push_back({row.at(0).get<std::string>(), row.at(1).get<std::vector<int64_t>>()});
  }
  for (const Json& row : json.at("files")) {
    manifest.files.push_back({row.at(0).get<std::string>(), row.at(1).get<uint64_t>(), row.at(2).get<std::string>()});
  }
  for (const Json& row : json.at("slices")) {
    SliceRecord record;
    record.slice = {row.at(0).get<std::string>(), row.at(1).get<std::string>(), row.at(3).get<int64_t>(), row.at(4).get<int64_t>(),
                    row.at(5).get<int64_t>(),     row.at(6).get<int64_t>(),     row.at(7).get<int64_t>()};
    const auto dtype = parse_dtype(row.at(2).get<std::string>());
    if (!dtype) throw UserError("slice of {} has unknown dtype {}", record.slice.parameter, row.at(2).dump());
    record.dtype = *dtype;
    record.file = row.at(8).get<std::string>();
    record.key = row.at(9).get<std::string>();
    manifest.slices.push_back(std::move(record));
  }
  return manifest;
}

}  // namespace

std::string manifest_text(const Manifest& manifest) {
  Json json = {{"format", kFormatName}, {"version", kCheckpointVersion}, {"step", manifest.step}};
  json["parameters"] = json["files"] = json["slices"] = Json::array();
  for (const CheckpointParameter& p : manifest.parameters) json["parameters"].push_back(Json::array({p.name, p.shape}));
  for (const FileRecord& f : manifest.files) json["files"].push_back(Json::array({f.name, f.bytes, f.xxh3}));
  for (const SliceRecord& r : manifest.slices) {
    const Slice& s = r.slice;
    json["slices"].push_back(Json::array(
        {s.parameter, s.kind, std::string(dtype_name(r.dtype)), s.dim, s.part_begin, s.part_end, s.begin, s.end, r.file, r.key}));
  }
  return fmt::format("{{\"format\": \"{}\", \"version\": {}, \"step\": {}, \"{}\": \"{}\"", kFormatName, kCheckpointVersion, manifest.step,
                     kHashKey, hash_of(json)) +
         lines("files", json["files"]) + lines("parameters", json["parameters"]) + lines("slices", json["slices"]) + "\n}\n";
}

Manifest read_manifest(const std::filesystem::path& file) {
  Json json = read_json_file(file);
  try {
    if (json.at("format") != kFormatName) {
      throw UserError("{}: its format is {}, not \"{}\"", file.string(), json["format"].dump(), kFormatName);
    }
    if (const auto version = json.at("version").get<int64_t>(); version > kCheckpointVersion) {
      throw NewerFormat("{}: format version {} is newer than this Trine's {}; use the Trine that wrote it, or a newer one", file.string(),
                        version, kCheckpointVersion);
    }
    const auto stated = json.at(kHashKey).get<std::string>();
    json.erase(kHashKey);
    if (hash_of(json) != stated) throw UserError("{}: its content does not match its own hash", file.string());
    return from_json(json);
  } catch (const nlohmann::json::exception& e) {
    throw UserError("{}: not a checkpoint's manifest: {}", file.string(), e.what());
  }
}

void check_size(const std::filesystem::path& folder, const FileRecord& record) {
  std::error_code error;
  const auto size = std::filesystem::file_size(folder / record.name, error);
  if (error) throw UserError("{}: {}", (folder / record.name).string(), error.message());
  if (size != record.bytes) {
    throw UserError("{} has {} bytes, the manifest says {}", (folder / record.name).string(), size, record.bytes);
  }
}

}  // namespace trine
