// A safetensors file from elsewhere: refused with a UserError, or every tensor lies inside the file and has its size, without overlap.
//
// The input is taken twice: as a whole file, and as the text of a header (up to the first NUL byte) with the data that follows it, so
// that the fuzzer need not find out what a length prefix is. And once as the index of a folder.
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "base/errors.h"
#include "base/log.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/safetensors.h"

namespace trine {
namespace {

namespace fs = std::filesystem;

void require(bool holds) {
  if (!holds) std::abort();
}

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

// A header's text as the start of a file.
std::string with_length(std::string_view header) {
  const uint64_t length = header.size();
  std::string file(sizeof(length), '\0');
  std::memcpy(file.data(), &length, sizeof(length));
  return file.append(header);
}

void try_header(std::string_view input) {
  const size_t split = std::min(input.find('\0'), input.size());
  try_file(with_length(input.substr(0, split)).append(input.substr(std::min(split + 1, input.size()))));
}

// A folder of this process with two small shards, in memory where the system has such a place, and removed at the end.
class ModelFolder {
 public:
  ModelFolder() {
    const fs::path memory = "/dev/shm";
    path_ = (::access(memory.c_str(), W_OK) == 0 ? memory : fs::temp_directory_path()) / fmt::format("trine-fuzz-{}", ::getpid());
    fs::create_directories(path_);
    for (const char* name : {"a", "b"}) {
      const std::string header = fmt::format(R"({{"{}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}}})", name);
      write(fmt::format("{}.safetensors", name), with_length(header));
    }
  }
  ~ModelFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  void write(const std::string& name, std::string_view content) const {
    std::ofstream(path_ / name, std::ios::binary | std::ios::trunc).write(content.data(), static_cast<std::streamsize>(content.size()));
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

void try_index(std::string_view input) {
  static const ModelFolder folder;
  folder.write("model.safetensors.index.json", input);
  try {
    const HfWeights weights(folder.path());
    require(weights.tensors().size() == weights.files().size());
    for (const StoredTensor& tensor : weights.tensors()) require(tensor.name == "a" || tensor.name == "b");
  } catch (const UserError&) {
  }
}

}  // namespace
}  // namespace trine

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool quiet = (trine::log::set_level(trine::log::Level::kError), true);
  (void)quiet;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  trine::try_file(input);
  trine::try_header(input);
  if (input.starts_with("{") && input.find("weight_map") != std::string_view::npos) trine::try_index(input);
  return 0;
}
