#include "checkpoint/safetensors.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/errors.h"
#include "base/json.h"

namespace trine {
namespace {

constexpr uint64_t kLongestHeader = 100'000'000;  // the reference library's limit
constexpr uint64_t kLengthBytes = 8;

// A name as messages show it: control characters escaped, a very long one cut.
std::string shown(std::string_view name) {
  std::string text;
  for (unsigned char c : name.substr(0, 120)) text += c < 0x20 ? fmt::format("\\x{:02x}", c) : std::string(1, static_cast<char>(c));
  return '"' + text + (name.size() > 120 ? "...\"" : "\"");
}

uint64_t header_length(std::span<const std::byte> file, std::string_view where) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (text.starts_with("version https://git-lfs")) {
    throw UserError("{}: this is a git-lfs pointer, not the file that it stands for; run `git lfs pull` there", where);
  }
  if (file.size() < kLengthBytes) {
    throw UserError("{}: {} bytes are too few for a safetensors file (8 bytes of header length come first); download it again", where,
                    file.size());
  }
  uint64_t length = 0;  // little-endian, like every machine that Trine runs on
  std::memcpy(&length, file.data(), kLengthBytes);
  if (length > file.size() - kLengthBytes) {
    throw UserError("{}: the header claims {} bytes, but only {} follow its length; the file is cut short (download it again) or no "
                    "safetensors file", where, length, file.size() - kLengthBytes);
  }
  if (length > kLongestHeader) {
    throw UserError("{}: a header of {} bytes is over the format's limit of {}", where, length, kLongestHeader);
  }
  if (length == 0 || text[kLengthBytes] != '{') {
    throw UserError("{}: the header does not start with \"{{\"; this is no safetensors file", where);
  }
  return length;
}

TensorEntry parse_entry(const std::string& name, const Json& value, std::string_view where) {
  const auto fail = [&](const std::string& what) { return UserError("{}: tensor {}: {}", where, shown(name), what); };
  if (!value.is_object()) throw fail("its entry is not an object");
  for (const char* key : {"dtype", "shape", "data_offsets"}) {
    if (!value.contains(key)) throw fail(fmt::format("\"{}\" is missing", key));
  }
  TensorEntry entry;
  entry.name = name;
  const Json& dtype = value["dtype"];
  if (!dtype.is_string()) throw fail("\"dtype\" is not a string");
  const auto parsed = parse_dtype(dtype.get_ref<const std::string&>());
  if (!parsed) throw fail(fmt::format("unknown dtype {}", shown(dtype.get_ref<const std::string&>())));
  entry.dtype = *parsed;

  const Json& shape = value["shape"];
  if (!shape.is_array()) throw fail("\"shape\" is not a list");
  for (const Json& size : shape) {
    if (!size.is_number_unsigned() || size.get<uint64_t>() > INT64_MAX) throw fail(fmt::format("bad size {} in \"shape\"", size.dump()));
    entry.shape.push_back(size.get<int64_t>());
  }
  const Json& offsets = value["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned()) {
    throw fail("\"data_offsets\" is not a pair of byte positions");
  }
  entry.begin = offsets[0].get<uint64_t>();
  entry.end = offsets[1].get<uint64_t>();
  if (entry.begin > entry.end) throw fail(fmt::format("its data ends at {} before it begins at {}", entry.end, entry.begin));

  const auto bytes = tensor_bytes(entry.dtype, entry.shape);
  if (!bytes) throw fail(fmt::format("shape {} of {} is impossible", shape.dump().substr(0, 200), dtype_name(entry.dtype)));
  if (*bytes != entry.end - entry.begin) {
    throw fail(fmt::format("{} of shape {} needs {} bytes, but its data is {} to {}, {} bytes", dtype_name(entry.dtype),
                           shape.dump().substr(0, 200), *bytes, entry.begin, entry.end, entry.end - entry.begin));
  }
  return entry;
}

// Entries must follow each other without overlap or hole and end with the file.
void check_layout(const std::vector<TensorEntry>& entries, uint64_t data_bytes, std::string_view where) {
  uint64_t end = 0;
  const TensorEntry* beyond = nullptr;
  for (const TensorEntry& entry : entries) {
    if (entry.begin != end) {
      throw UserError("{}: tensor {}: its data begins at byte {}, but the one before it ends at {}", where, shown(entry.name), entry.begin,
                      end);
    }
    end = entry.end;
    if (end > data_bytes && !beyond) beyond = &entry;
  }
  if (beyond) {
    throw UserError("{}: the file is cut short: it holds {} bytes of tensor data, its header describes {} (tensor {} does not fit); "
                    "download it again", where, data_bytes, end, shown(beyond->name));
  }
  if (end < data_bytes) {
    throw UserError("{}: {} bytes follow the last tensor ({} of tensor data expected, {} found); the file is damaged: download it again",
                    where, data_bytes - end, end, data_bytes);
  }
}

}  // namespace

SafetensorsHeader parse_safetensors(std::span<const std::byte> file, std::string_view where) {
  const uint64_t length = header_length(file, where);
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + kLengthBytes, length);
  const Json json = parse_json(text, where);

  SafetensorsHeader header;
  header.data_start = kLengthBytes + length;
  for (const auto& [name, value] : json.items()) {
    if (name != "__metadata__") {
      header.entries.push_back(parse_entry(name, value, where));
      continue;
    }
    if (!value.is_object()) throw UserError("{}: __metadata__ is not an object", where);
    for (const auto& [key, word] : value.items()) {
      if (!word.is_string()) throw UserError("{}: __metadata__ {} is not a string", where, shown(key));
      header.metadata[key] = word.get<std::string>();
    }
  }
  std::sort(header.entries.begin(), header.entries.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);  // empty tensors come before the one at their place
  });
  check_layout(header.entries, file.size() - header.data_start, where);
  return header;
}

void release_mapped_pages(std::span<const std::byte> mapped) {
  static const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(mapped.data()) + page - 1) / page * page;
  const uintptr_t end = reinterpret_cast<uintptr_t>(mapped.data() + mapped.size()) / page * page;
  if (end > begin) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& file)
    : file_(file), header_(parse_safetensors(file_.bytes(), file.string())) {
  for (const TensorEntry& entry : header_.entries) by_name_.emplace(entry.name, &entry);
}

const TensorEntry* SafetensorsFile::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

std::span<const std::byte> SafetensorsFile::data(const TensorEntry& entry) const {
  return file_.bytes().subspan(header_.data_start + entry.begin, entry.end - entry.begin);
}

}  // namespace trine
