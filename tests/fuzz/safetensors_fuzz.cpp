// A safetensors file from elsewhere: refused with a UserError, or every tensor lies inside the file and has its size, without overlap.
//
// The input is taken twice: as a whole file, and as the text of a header (up to the first NUL byte) with the data that follows it, so
// that the fuzzer need not find out what a length prefix is. And once as the index of a folder. Experts that a good file has fused are
// either refused too or taken apart into tensors that hold each of its elements once.
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <numeric>

#include "base/errors.h"
#include "base/log.h"
#include "checkpoint/expert_layout.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/safetensors.h"

namespace trine {
namespace {

namespace fs = std::filesystem;

void require(bool holds) {
  if (!holds) std::abort();
}

// The tensors of a file that has been accepted.
class FileWeights : public WeightSource {
 public:
  FileWeights(std::string_view file, const SafetensorsHeader& header) : data_(std::as_bytes(std::span(file)).subspan(header.data_start)) {
    for (const TensorEntry& entry : header.entries) {
      tensors_.push_back({entry.name, entry.dtype, entry.shape, "fuzz"});
      begins_.push_back(entry.begin);
    }
  }
  std::string description() const override { return "fuzz"; }
  const std::vector<StoredTensor>& tensors() const override { return tensors_; }
  const std::vector<std::string>& notes() const override { return notes_; }
  void visit(const StoredTensor& tensor, int64_t first, int64_t last, const Take& take) const override {
    const auto bits = static_cast<uint64_t>(dtype_bits(tensor.dtype));
    require(first >= 0 && first < last && last <= element_count(tensor.shape));
    const uint64_t begin = begins_.at(static_cast<size_t>(&tensor - tensors_.data()));
    take(first, data_.subspan(begin + static_cast<uint64_t>(first) * bits / 8, static_cast<uint64_t>(last - first) * bits / 8));
  }

 private:
  std::span<const std::byte> data_;
  std::vector<StoredTensor> tensors_;
  std::vector<uint64_t> begins_;
  std::vector<std::string> notes_;
};

void try_experts(std::string_view file, const SafetensorsHeader& header) {
  std::unique_ptr<WeightSource> source;
  try {
    source = split_fused_experts(std::make_unique<FileWeights>(file, header));
  } catch (const UserError&) {
    return;
  }
  if (!dynamic_cast<const ExpertWeights*>(source.get())) return;
  const auto sum = [](std::span<const std::byte> bytes) {  // of all bytes: does not depend on their order
    return std::accumulate(bytes.begin(), bytes.end(), uint64_t{0}, [](uint64_t total, std::byte b) { return total + uint64_t(b); });
  };
  uint64_t bytes_seen = 0, sum_seen = 0;
  for (const StoredTensor& tensor : source->tensors()) {
    source->visit(tensor, 0, element_count(tensor.shape), [&](int64_t, std::span<const std::byte> bytes) {
      bytes_seen += bytes.size();
      sum_seen += sum(bytes);
    });
  }
  const std::span data = std::as_bytes(std::span(file)).subspan(header.data_start);
  require(bytes_seen == data.size() && sum_seen == sum(data));
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
  try_experts(file, header);
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
