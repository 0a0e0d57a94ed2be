// A safetensors file from elsewhere: refused with a UserError, or every tensor lies inside the file and has its size, without overlap.
//
// The input is taken twice: as a whole file, and as the text of a header (up to the first NUL byte) with the data that follows it, so
// that the fuzzer need not find out what a length prefix is. And once as the index of a folder.
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/safetensors.h"
#include "tests/fuzz/fuzz_file.h"

namespace trine {
namespace {

using fuzz::require;

void try_file(std::string_view file) {
  SafetensorsHeader header;
  try {
    header = parse_safetensors(std::as_bytes(std::span(file)), "fuzz");
  } catch (const UserError&) {
    return;
  }
  uint64_t end = 0;
  for (const TensorEntry& entry : header.entries) {
    require(entry.begin == end && entry.end >= entry.begin);
    require(tensor_bytes(entry.dtype, entry.shape) == entry.end - entry.begin);
    end = entry.end;
  }
  require(header.data_start + end == file.size());
}

void try_header(std::string_view input) {
  const size_t split = std::min(input.find('\0'), input.size());
  const uint64_t length = split;
  std::string file(sizeof(length), '\0');
  std::memcpy(file.data(), &length, sizeof(length));
  file += input.substr(0, split);
  file += input.substr(std::min(split + 1, input.size()));
  try_file(file);
}

// An index beside two small shards.
void try_index(std::string_view input) {
  static const std::filesystem::path folder = [] {
    const auto place = fuzz::file_of("index", "");
    std::filesystem::remove(place);
    std::filesystem::create_directory(place);
    for (const char* name : {"a", "b"}) {
      const std::string header = fmt::format(R"({{"{}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}}})", name);
      const uint64_t length = header.size();
      std::ofstream file(place / (std::string(name) + ".safetensors"), std::ios::binary);
      file.write(reinterpret_cast<const char*>(&length), sizeof(length)).write(header.data(), static_cast<std::streamsize>(length));
    }
    return place;
  }();
  std::ofstream(folder / "model.safetensors.index.json", std::ios::binary | std::ios::trunc)
      .write(input.data(), static_cast<std::streamsize>(input.size()));
  try {
    const HfWeights weights(folder);
    require(weights.tensors().size() == weights.files().size());
    for (const StoredTensor& tensor : weights.tensors()) require(tensor.name == "a" || tensor.name == "b");
  } catch (const UserError&) {
  }
}

}  // namespace
}  // namespace trine

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  trine::fuzz::be_quiet();
  const std::string_view input = trine::fuzz::as_text(data, size);
  trine::try_file(input);
  trine::try_header(input);
  if (input.starts_with("{") && input.find("weight_map") != std::string_view::npos) trine::try_index(input);
  return 0;
}
