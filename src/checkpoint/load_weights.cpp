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
void fill(const WeightSource& source, const StoredTensor& tensor, const at::Tensor& destination, int64_t first, int64_t begin,
          int64_t end) {
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

std::string tied_fault(const WeightSource& source, const std::string& name, const std::string& partner_name) {
  const StoredTensor *tied = source.find(name), *partner = source.find(partner_name);
  const auto fault = [&](const std::string& what) {
    return fmt::format("{}: {} is tied to {} (tie_word_embeddings is true), but {}. Either config.json or the file is wrong.",
                       source.description(), name, partner_name, what);
  };
  if (!partner) return fault("the file lacks the latter");
  if (tied->shape != partner->shape) {
    return fault(fmt::format("has shape [{}] and not [{}]", fmt::join(tied->shape, ", "), fmt::join(partner->shape, ", ")));
  }
  const int64_t count = element_count(tied->shape);
  for (int64_t begin = 0; begin < count; begin += kChunk) {
    const int64_t length = std::min(kChunk, count - begin);
    at::Tensor a = at::empty({length}, at::kFloat), b = at::empty({length}, at::kFloat);
    load_tensor(source, *tied, a, begin);
    load_tensor(source, *partner, b, begin);
    if (std::memcmp(a.data_ptr(), b.data_ptr(), static_cast<size_t>(length) * sizeof(float)) != 0) return fault("holds other values");
  }
  return "";
}

LoadReport load_weights(const WeightSource& source, const std::vector<WantedTensor>& wanted, const TiedNames& tied) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const WantedTensor& one : wanted) {
    check_destination(one.name, one.destination);
    if (one.first < 0 || one.first + one.destination.numel() > element_count(one.shape)) {
      throw std::logic_error("destination of " + one.name + " reaches outside it");
    }
    shapes[one.name] = one.shape;
  }
  const KeyAccount account = account_keys(source, shapes, tied);
  if (!account.fits()) throw UserError(explain(account, source));

  LoadReport report;
  report.notes = source.notes();
  report.total = account.wanted;
  for (const std::string& name : account.tied) {
    if (const std::string fault = tied_fault(source, name, tied.at(name)); !fault.empty()) throw UserError(fault);
    report.notes.push_back(fmt::format("{} is in the file and equals {}, to which it is tied; it is counted once", name, tied.at(name)));
  }
  if (account.rotary_frequencies) {
    report.notes.push_back(fmt::format("{} tensors *.rotary_emb.inv_freq are ignored: rotary frequencies follow from config.json",
                                       account.rotary_frequencies));
  }
  std::map<std::string, const StoredTensor*> stored;
  for (const StoredTensor& tensor : source.tensors()) {
    if (!shapes.contains(tensor.name)) continue;
    stored[tensor.name] = &tensor;
    try {
      to_scalar_type(tensor.dtype);
    } catch (const UserError& e) {
      throw UserError("{}: {}: {}", source.description(), tensor.name, e.what());
    }
  }

  struct Task {
    const WantedTensor* wanted;
    int64_t begin, end;
  };
  std::vector<Task> tasks;
  for (const WantedTensor& one : wanted) {
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
