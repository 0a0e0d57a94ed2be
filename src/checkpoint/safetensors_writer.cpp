#include "checkpoint/safetensors_writer.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <stdexcept>

#include "base/errors.h"
#include "base/json.h"

namespace trine {
namespace {

std::string header_text(const std::vector<TensorEntry>& entries, const std::map<std::string, std::string>& metadata) {
  OrderedJson header = OrderedJson::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  for (const TensorEntry& entry : entries) {
    OrderedJson value;
    value["dtype"] = dtype_name(entry.dtype);
    value["shape"] = entry.shape;
    value["data_offsets"] = {entry.begin, entry.end};
    header.push_back({entry.name, std::move(value)});  // push_back: operator[] would look through all earlier keys
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data section starts at a multiple of 8
  return text;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& file, std::vector<TensorDeclaration> tensors,
                                     const std::map<std::string, std::string>& metadata)
    : writer_(file) {
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(-dtype_bits(tensors[a].dtype), a) < std::pair(-dtype_bits(tensors[b].dtype), b);
  });
  std::set<std::string> names;
  uint64_t end = 0;
  for (size_t i : order) {
    TensorDeclaration& tensor = tensors[i];
    const auto bytes = tensor_bytes(tensor.dtype, tensor.shape);
    if (!bytes) throw std::logic_error("impossible shape for tensor " + tensor.name);
    if (tensor.name == "__metadata__" || !names.insert(tensor.name).second) throw std::logic_error("bad tensor name " + tensor.name);
    entries_.push_back({std::move(tensor.name), tensor.dtype, std::move(tensor.shape), end, end + *bytes});
    end += *bytes;
  }
  data_left_ = end;
  const std::string text = header_text(entries_, metadata);
  const uint64_t length = text.size();
  std::byte prefix[sizeof(length)];
  std::memcpy(prefix, &length, sizeof(length));
  writer_.write(prefix);
  hash_.update(prefix);
  writer_.write(text);
  hash_.update(std::as_bytes(std::span(text)));
}

void SafetensorsWriter::write(std::span<const std::byte> bytes) {
  if (bytes.size() > data_left_) throw std::logic_error("more bytes written than the declared tensors have");
  constexpr size_t kPiece = size_t{4} << 20;  // hashed while it is in cache
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), kPiece));
    hash_.update(piece);
    writer_.write(piece);
    data_left_ -= piece.size();
    bytes = bytes.subspan(piece.size());
  }
}

void SafetensorsWriter::finish() {
  if (data_left_ != 0) throw std::logic_error(fmt::format("{} bytes of the declared tensors were not written", data_left_));
  writer_.sync_and_close();
}

}  // namespace trine
