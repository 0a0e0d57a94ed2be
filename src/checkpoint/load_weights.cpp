#include "checkpoint/load_weights.h"

#include <ATen/Parallel.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "base/errors.h"

namespace trine {
namespace {

constexpr int64_t kChunk = int64_t{1} << 22;  // elements converted at a time
constexpr size_t kExamples = 5;
constexpr std::string_view kFrequencies = ".rotary_emb.inv_freq";  // a buffer of older exports; computed anew from config.json

std::string shape_text(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

// `bytes` as a tensor; copied if it does not lie where its type may be read.
at::Tensor as_tensor(std::span<const std::byte> bytes, StoredDtype dtype) {
  const at::ScalarType type = to_scalar_type(dtype);
  const auto width = static_cast<size_t>(dtype_bits(dtype) / 8);
  const auto count = static_cast<int64_t>(bytes.size() / width);
  if (reinterpret_cast<uintptr_t>(bytes.data()) % width == 0) {
    return at::from_blob(const_cast<std::byte*>(bytes.data()), {count}, type);  // only read
  }
  at::Tensor copy = at::empty({count}, type);
  std::memcpy(copy.data_ptr(), bytes.data(), bytes.size());
  return copy;
}

// Elements [begin, end) of `destination` from elements first + [begin, end) of the stored tensor.
void fill(const WeightSource& source, const StoredTensor& tensor, const at::Tensor& destination, int64_t first, int64_t begin, int64_t end) {
  const at::NoGradGuard no_grad;
  const at::Tensor flat = destination.detach().view({-1});
  source.visit(tensor, first + begin, first + end, [&](int64_t at, std::span<const std::byte> bytes) {
    const at::Tensor values = as_tensor(bytes, tensor.dtype);
    flat.narrow(0, at - first, values.numel()).copy_(values);
  });
}

void check_destination(const std::string& name, const at::Tensor& destination) {
  if (!destination.is_contiguous() || !at::isFloatingType(destination.scalar_type())) {
    throw std::logic_error("destination of " + name + " must be contiguous and floating point");
  }
}

// What does not fit, gathered over all keys before one message is made of it.
struct Faults {
  std::vector<std::string> missing, unexpected, misshaped;

  bool any() const { return !missing.empty() || !unexpected.empty() || !misshaped.empty(); }
};

void append(std::string& message, const char* title, const std::vector<std::string>& names, const std::vector<std::string>& others) {
  if (names.empty()) return;
  message += fmt::format("\n  {}:", title);
  for (size_t i = 0; i < std::min(names.size(), kExamples); ++i) {
    const std::string near = nearest(names[i], others);
    message += fmt::format("{} {}{}", i ? "," : "", names[i], near.empty() ? "" : fmt::format(" (there is {})", near));
  }
  if (names.size() > kExamples) message += fmt::format(", and {} more", names.size() - kExamples);
}

std::string message_of(const Faults& faults, const WeightSource& source, size_t num_wanted) {
  std::string message = fmt::format("{} does not hold this model's weights: of {} wanted, {} are missing and {} have another shape; {} are unexpected.",
                                    source.description(), num_wanted, faults.missing.size(), faults.misshaped.size(), faults.unexpected.size());
  append(message, "missing", faults.missing, faults.unexpected);
  append(message, "unexpected", faults.unexpected, faults.missing);
  append(message, "other shape", faults.misshaped, {});
  const auto has = [](const std::vector<std::string>& names, auto&& test) { return std::any_of(names.begin(), names.end(), test); };
  if (has(faults.missing, [](const std::string& n) { return n == "lm_head.weight"; })) {
    message += "\n  There is no output head. If it is tied to the embedding, config.json must say \"tie_word_embeddings\": true.";
  }
  if (has(faults.unexpected, [](const std::string& n) { return n.ends_with(".bias"); })) {
    message += "\n  The model that config.json describes has no biases; a file with biases is of another architecture.";
  }
  if (has(faults.unexpected, [](const std::string& n) { return n.ends_with("_scale") || n.ends_with("_scale_inv") || n.ends_with(".qweight"); })) {
    message += "\n  These are quantised weights; Trine loads float32, bfloat16 and float16.";
  }
  return message;
}

// A name tied to another one: its values must be the other's.
void check_tied(const WeightSource& source, const StoredTensor& tied, const std::string& partner_name) {
  const StoredTensor* partner = source.find(partner_name);
  if (!partner) return;  // reported as missing
  const auto fail = [&](const std::string& what) {
    return UserError("{}: {} is tied to {} (tie_word_embeddings is true), but {}. Either config.json or the file is wrong.",
                     source.description(), tied.name, partner_name, what);
  };
  if (tied.shape != partner->shape) throw fail(fmt::format("has shape {} and not {}", shape_text(tied.shape), shape_text(partner->shape)));
  const int64_t count = element_count(tied.shape);
  for (int64_t begin = 0; begin < count; begin += kChunk) {
    const int64_t length = std::min(kChunk, count - begin);
    at::Tensor a = at::empty({length}, at::kFloat), b = at::empty({length}, at::kFloat);
    load_tensor(source, tied, a, begin);
    load_tensor(source, *partner, b, begin);
    if (std::memcmp(a.data_ptr(), b.data_ptr(), static_cast<size_t>(length) * sizeof(float)) != 0) throw fail("holds other values");
  }
}

}  // namespace

at::ScalarType to_scalar_type(StoredDtype dtype) {
  switch (dtype) {
    case StoredDtype::kF64: return at::kDouble;
    case StoredDtype::kF32: return at::kFloat;
    case StoredDtype::kBF16: return at::kBFloat16;
    case StoredDtype::kF16: return at::kHalf;
    default: throw UserError("weights of type {} cannot be used; Trine takes F32, BF16, F16 and F64", dtype_name(dtype));
  }
}

StoredDtype to_stored_dtype(at::ScalarType type) {
  switch (type) {
    case at::kDouble: return StoredDtype::kF64;
    case at::kFloat: return StoredDtype::kF32;
    case at::kBFloat16: return StoredDtype::kBF16;
    case at::kHalf: return StoredDtype::kF16;
    default: throw std::logic_error(fmt::format("no stored type for {}", at::toString(type)));
  }
}

void load_tensor(const WeightSource& source, const StoredTensor& tensor, at::Tensor destination, int64_t first) {
  check_destination(tensor.name, destination);
  fill(source, tensor, destination, first, 0, destination.numel());
}

LoadReport load_weights(const WeightSource& source, const std::vector<WantedTensor>& wanted, const std::map<std::string, std::string>& tied) {
  LoadReport report;
  report.notes = source.notes();
  std::map<std::string, const WantedTensor*> by_name;
  for (const WantedTensor& one : wanted) {
    check_destination(one.name, one.destination);
    by_name[one.name] = &one;
  }
  report.total = static_cast<int64_t>(by_name.size());

  Faults faults;
  std::map<std::string, const StoredTensor*> stored;
  int64_t frequencies = 0;
  for (const StoredTensor& tensor : source.tensors()) {
    if (const auto place = by_name.find(tensor.name); place != by_name.end()) {
      stored[tensor.name] = &tensor;
      if (tensor.shape != place->second->shape) {
        faults.misshaped.push_back(fmt::format("{} (file {}, model {})", tensor.name, shape_text(tensor.shape), shape_text(place->second->shape)));
      }
    } else if (tensor.name.ends_with(kFrequencies)) {
      ++frequencies;
    } else if (!tied.contains(tensor.name)) {
      faults.unexpected.push_back(tensor.name);
    }
  }
  for (const auto& [name, one] : by_name) {
    if (!stored.contains(name)) faults.missing.push_back(name);
  }
  if (faults.any()) throw UserError(message_of(faults, source, by_name.size()));
  for (const auto& [name, tensor] : stored) {
    try {
      to_scalar_type(tensor->dtype);
    } catch (const UserError& e) {
      throw UserError("{}: {}: {}", source.description(), name, e.what());
    }
  }
  for (const auto& [name, partner] : tied) {
    if (const StoredTensor* head = source.find(name)) {
      check_tied(source, *head, partner);
      report.notes.push_back(fmt::format("{} is in the file and equals {}, to which it is tied; it is counted once", name, partner));
    }
  }
  if (frequencies) {
    report.notes.push_back(fmt::format("{} tensors *{} are ignored: rotary frequencies follow from config.json", frequencies, kFrequencies));
  }

  struct Task {
    const WantedTensor* wanted;
    int64_t begin, end;
  };
  std::vector<Task> tasks;
  for (const WantedTensor& one : wanted) {
    if (one.first < 0 || one.first + one.destination.numel() > element_count(one.shape)) {
      throw std::logic_error("destination of " + one.name + " reaches outside it");
    }
    for (int64_t begin = 0; begin < one.destination.numel(); begin += kChunk) {
      tasks.push_back({&one, begin, std::min(begin + kChunk, one.destination.numel())});
    }
  }
  // Host memory is filled by all threads at once, each with whole chunks; device memory by this one.
  const auto run = [&](const Task& task) {
    fill(source, *stored.at(task.wanted->name), task.wanted->destination, task.wanted->first, task.begin, task.end);
  };
  const auto on_host = std::partition(tasks.begin(), tasks.end(), [](const Task& task) { return task.wanted->destination.is_cpu(); });
  at::parallel_for(0, on_host - tasks.begin(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) run(tasks[static_cast<size_t>(i)]);
  });
  std::for_each(on_host, tasks.end(), run);

  for (const auto& [name, tensor] : stored) ++report.source_dtypes[std::string(dtype_name(tensor->dtype))];
  report.loaded = static_cast<int64_t>(stored.size());
  return report;
}

}  // namespace trine
