#include "checkpoint/expert_layout.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "base/errors.h"
#include "checkpoint/expert_names.h"
#include "checkpoint/key_accounting.h"

namespace trine {
namespace {

constexpr std::string_view kGateUp = ".gate_up_proj", kDown = ".down_proj";
constexpr int64_t kMostExperts = 65536;             // of a layer; more is a damaged or hostile header
constexpr int64_t kBlockBytes = int64_t{16} << 20;  // of a transposed matrix at a time: a whole one of every published model

enum class Layout { kPlain, kTransposed };

// Shapes of one layer's experts.
struct Sizes {
  Layout layout = Layout::kPlain;
  int64_t num_experts = 0, intermediate = 0, hidden = 0;
};

// What a file holds of one layer's experts: "model.layers.0.mlp.experts".
struct Experts {
  const StoredTensor *gate_up = nullptr, *down = nullptr;  // fused
  std::vector<std::string> separate;                       // names of single experts' tensors
};

std::string shown(const StoredTensor& tensor) { return fmt::format("{} [{}]", tensor.name, fmt::join(tensor.shape, ", ")); }

// "model.layers.0.mlp.experts" of a fused tensor's name; empty for any other.
std::string_view experts_of_fused(std::string_view name, std::string_view ending) {
  if (!name.ends_with(ending)) return {};
  const std::string_view experts = name.substr(0, name.size() - ending.size());
  return experts.ends_with(".experts") ? experts : std::string_view();
}

std::map<std::string, Experts, std::less<>> find_experts(const std::vector<StoredTensor>& tensors) {
  std::map<std::string, Experts, std::less<>> layers;
  for (const StoredTensor& tensor : tensors) {
    if (const auto experts = experts_of_fused(tensor.name, kGateUp); !experts.empty()) layers[std::string(experts)].gate_up = &tensor;
    if (const auto experts = experts_of_fused(tensor.name, kDown); !experts.empty()) layers[std::string(experts)].down = &tensor;
  }
  if (layers.empty()) return layers;
  for (const StoredTensor& tensor : tensors) {
    const auto name = parse_expert_name(tensor.name);
    if (!name) continue;
    if (const auto layer = layers.find(name->experts); layer != layers.end()) layer->second.separate.push_back(tensor.name);
  }
  return layers;
}

// The other tensors of a layer that know its hidden size, as their last dimension: router and norms.
std::vector<const StoredTensor*> witnesses(const WeightSource& source, std::string_view experts) {
  const std::string_view block = experts.substr(0, experts.rfind('.'));                       // model.layers.0.mlp
  const std::string_view layer = block.substr(0, std::min(block.rfind('.'), block.size()));   // model.layers.0
  std::vector<const StoredTensor*> found;
  for (const std::string& name : {fmt::format("{}.gate.weight", block), fmt::format("{}.post_attention_layernorm.weight", layer),
                                  fmt::format("{}.input_layernorm.weight", layer)}) {
    const StoredTensor* tensor = source.find(name);
    if (tensor && !tensor->shape.empty()) found.push_back(tensor);
  }
  return found;
}

void check_form(const WeightSource& source, const std::string& name, const Experts& experts) {
  const StoredTensor& any = experts.gate_up ? *experts.gate_up : *experts.down;
  if (!experts.separate.empty()) {
    throw UserError("{}: {} holds all experts of a layer, and the file has single experts of that layer too ({}). Which of them count is "
                    "not known; remove one of the two, or export the model anew.", source.description(), any.name,
                    first_few(experts.separate));
  }
  if (!experts.gate_up || !experts.down) {
    throw UserError("{}: there is {} and no {}{}; fused experts are two tensors. Download the files again, or export the model anew.",
                    source.description(), any.name, name, experts.gate_up ? kDown : kGateUp);
  }
  for (const StoredTensor* tensor : {experts.gate_up, experts.down}) {
    if (tensor->shape.size() != 3 || std::count(tensor->shape.begin(), tensor->shape.end(), 0) || tensor->shape[0] > kMostExperts) {
      throw UserError("{}: {}: fused experts have three dimensions: experts (at most {}), rows, columns", source.description(),
                      shown(*tensor), kMostExperts);
    }
    if (dtype_bits(tensor->dtype) % 8 != 0) {
      throw UserError("{}: {}: fused experts of type {} cannot be taken apart; Trine takes F32, BF16, F16 and F64", source.description(),
                      shown(*tensor), dtype_name(tensor->dtype));
    }
  }
}

Sizes find_sizes(const WeightSource& source, const std::string& name, const Experts& experts) {
  check_form(source, name, experts);
  const std::vector<int64_t>&gate_up = experts.gate_up->shape, &down = experts.down->shape;
  const std::string both = fmt::format("{}: {} and {}", source.description(), shown(*experts.gate_up), shown(*experts.down));
  const bool plain = gate_up[2] == down[1] && gate_up[1] == 2 * down[2];
  const bool transposed = gate_up[1] == down[2] && gate_up[2] == 2 * down[1];  // never both: sizes are above zero
  if (gate_up[0] != down[0] || (!plain && !transposed)) {
    throw UserError("{} do not fit together. Fused experts are gate_up_proj [experts, 2 * intermediate, hidden] with down_proj [experts, "
                    "hidden, intermediate], or both with their last two dimensions swapped.", both);
  }
  Sizes sizes{plain ? Layout::kPlain : Layout::kTransposed, down[0], plain ? down[2] : down[1], plain ? down[1] : down[2]};
  const auto found = witnesses(source, name);
  for (const StoredTensor* witness : found) {
    if (witness->shape.back() == sizes.hidden) continue;
    throw UserError("{} are experts of hidden size {}, but {} of the same layer is of hidden size {}", both, sizes.hidden, shown(*witness),
                    witness->shape.back());
  }
  const bool has_router = !found.empty() && found[0]->name.ends_with(".gate.weight") && found[0]->shape.size() == 2;
  if (has_router && found[0]->shape[0] != sizes.num_experts) {
    throw UserError("{} hold {} experts, but {} chooses among {}", both, sizes.num_experts, shown(*found[0]), found[0]->shape[0]);
  }
  // A square matrix looks the same either way. Beside one that is plain it is what Transformers writes; but an exporter that swaps
  // dimensions may have swapped those of one tensor only.
  if (transposed && (gate_up[1] == gate_up[2] || down[1] == down[2])) {
    const bool square_gate_up = gate_up[1] == gate_up[2];
    throw UserError("{}: {} is stored transposed, and whether {} is too cannot be seen, since it is square. Export the model with separate "
                    "tensors for an expert's matrices (Transformers' save_pretrained does), or with gate_up_proj as [experts, 2 * "
                    "intermediate, hidden] and down_proj as [experts, hidden, intermediate].", source.description(),
                    shown(square_gate_up ? *experts.down : *experts.gate_up), shown(square_gate_up ? *experts.gate_up : *experts.down));
  }
  return sizes;
}

std::string note_of(Layout layout, const std::vector<std::string>& layers) {
  const char* shapes = layout == Layout::kPlain
                           ? "gate_up_proj [experts, 2 * intermediate, hidden] and down_proj [experts, hidden, intermediate]"
                           : "transposed as gate_up_proj [experts, hidden, 2 * intermediate] and down_proj [experts, intermediate, hidden]";
  return fmt::format("fused experts of {} {} ({}), {}, are read as matrices of single experts, mlp.experts.N.gate_proj.weight and so on",
                     layers.size(), layers.size() == 1 ? "layer" : "layers", first_few(layers), shapes);
}

template <size_t kWidth>
void transpose_elements(const std::byte* from, std::byte* to, int64_t rows, int64_t columns) {
  constexpr int64_t kTile = 32;  // a tile of each side stays in the first-level cache
  for (int64_t row = 0; row < rows; row += kTile) {
    for (int64_t column = 0; column < columns; column += kTile) {
      for (int64_t r = row; r < std::min(row + kTile, rows); ++r) {
        for (int64_t c = column; c < std::min(column + kTile, columns); ++c) {
          std::memcpy(to + static_cast<size_t>(r * columns + c) * kWidth, from + static_cast<size_t>(c * rows + r) * kWidth, kWidth);
        }
      }
    }
  }
}

// `from` [columns, rows] to `to` [rows, columns].
void transpose(const std::byte* from, std::byte* to, int64_t rows, int64_t columns, size_t width) {
  switch (width) {
    case 1: return transpose_elements<1>(from, to, rows, columns);
    case 2: return transpose_elements<2>(from, to, rows, columns);
    case 4: return transpose_elements<4>(from, to, rows, columns);
    default: return transpose_elements<8>(from, to, rows, columns);
  }
}

// Rows [first_row, last_row) of the matrix at `place` with `columns` columns, put into order.
std::vector<std::byte> read_rows(const WeightSource& source, const ExpertWeights::Place& place, int64_t first_row, int64_t last_row,
                                 int64_t columns, size_t width) {
  const int64_t rows = last_row - first_row, begin = place.base + first_row;
  std::vector<std::byte> staged(static_cast<size_t>(rows * columns) * width), ordered(staged.size());
  // One visit of all that lies between the first and the last element, so that mapped pages are read once and given back.
  source.visit(*place.stored, begin, begin + (columns - 1) * place.stride + rows, [&](int64_t at, std::span<const std::byte> bytes) {
    const int64_t end = at + static_cast<int64_t>(bytes.size() / width) - begin;
    for (int64_t i = at - begin; i < end;) {
      const int64_t column = i / place.stride, row = i % place.stride;
      if (row < rows) {
        const int64_t count = std::min(rows - row, end - i);
        std::memcpy(staged.data() + static_cast<size_t>(column * rows + row) * width,
                    bytes.data() + static_cast<size_t>(i + begin - at) * width, static_cast<size_t>(count) * width);
      }
      i += place.stride - row;
    }
  });
  transpose(staged.data(), ordered.data(), rows, columns, width);
  return ordered;
}

}  // namespace

ExpertWeights::ExpertWeights(std::unique_ptr<WeightSource> stored, std::vector<StoredTensor> tensors, std::vector<Place> places,
                             const std::vector<std::string>& notes)
    : stored_(std::move(stored)), tensors_(std::move(tensors)), places_(std::move(places)), notes_(stored_->notes()) {
  for (size_t i = 0; i < tensors_.size(); ++i) place_of_.emplace(tensors_[i].name, &places_[i]);
  notes_.insert(notes_.end(), notes.begin(), notes.end());
}

void ExpertWeights::visit(const StoredTensor& tensor, int64_t first, int64_t last, const Take& take) const {
  if (last <= first) return;
  const Place& place = *place_of_.at(tensor.name);
  if (place.stride == 0) {
    stored_->visit(*place.stored, place.base + first, place.base + last,
                   [&](int64_t at, std::span<const std::byte> bytes) { take(at - place.base, bytes); });
    return;
  }
  const int64_t columns = tensor.shape[1];
  const auto width = static_cast<size_t>(dtype_bits(tensor.dtype) / 8);
  const int64_t rows_at_once = std::max<int64_t>(1, kBlockBytes / (columns * static_cast<int64_t>(width)));
  const int64_t last_row = (last + columns - 1) / columns;
  for (int64_t row = first / columns; row < last_row; row += rows_at_once) {
    const int64_t end_row = std::min(row + rows_at_once, last_row);
    const std::vector<std::byte> ordered = read_rows(*stored_, place, row, end_row, columns, width);
    const int64_t begin = std::max(first, row * columns), end = std::min(last, end_row * columns);
    take(begin, std::span(ordered).subspan(static_cast<size_t>(begin - row * columns) * width, static_cast<size_t>(end - begin) * width));
  }
}

std::unique_ptr<WeightSource> split_fused_experts(std::unique_ptr<WeightSource>&& source) {
  const auto layers = find_experts(source->tensors());
  if (layers.empty()) return std::move(source);
  std::map<const StoredTensor*, std::pair<std::string, Sizes>> fused;
  std::map<Layout, std::vector<std::string>> layers_of_layout;
  for (const auto& [name, experts] : layers) {
    const Sizes sizes = find_sizes(*source, name, experts);
    fused[experts.gate_up] = fused[experts.down] = {name, sizes};
    layers_of_layout[sizes.layout].push_back(name);
  }

  std::vector<StoredTensor> tensors;
  std::vector<ExpertWeights::Place> places;
  for (const StoredTensor& stored : source->tensors()) {
    const auto found = fused.find(&stored);
    if (found == fused.end()) {
      tensors.push_back(stored);
      places.push_back({&stored});
      continue;
    }
    const auto& [name, sizes] = found->second;
    const int64_t matrix = sizes.intermediate * sizes.hidden;
    const bool transposed = sizes.layout == Layout::kTransposed, is_down = &stored == layers.find(name)->second.down;
    const auto add = [&](int64_t expert, const char* projection, std::vector<int64_t> shape, int64_t base, int64_t stride) {
      tensors.push_back({fmt::format("{}.{}.{}.weight", name, expert, projection), stored.dtype, std::move(shape), stored.where});
      places.push_back({&stored, base, transposed ? stride : 0});
    };
    for (int64_t expert = 0; expert < sizes.num_experts; ++expert) {
      if (is_down) {
        add(expert, "down_proj", {sizes.hidden, sizes.intermediate}, expert * matrix, sizes.hidden);
        continue;
      }
      const std::vector<int64_t> shape = {sizes.intermediate, sizes.hidden};
      const int64_t gate = expert * 2 * matrix;
      add(expert, "gate_proj", shape, gate, 2 * sizes.intermediate);
      add(expert, "up_proj", shape, gate + (transposed ? sizes.intermediate : matrix), 2 * sizes.intermediate);
    }
  }
  std::vector<std::string> notes;
  for (const auto& [layout, names] : layers_of_layout) notes.push_back(note_of(layout, names));
  return std::make_unique<ExpertWeights>(std::move(source), std::move(tensors), std::move(places), notes);
}

}  // namespace trine
