#include "model/parameter_unit.h"

#include <sys/mman.h>

#include <algorithm>

#include "base/errors.h"
#include "base/format.h"

namespace trine {
namespace {

// 64 bytes in the narrowest dtype a buffer may have (2 bytes), so that offsets in elements are the same in every buffer.
constexpr int64_t kAlignment = 32;

int64_t aligned(int64_t count) { return (count + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

at::Tensor allocate_flat(int64_t count, at::ScalarType dtype) {
  const size_t bytes = std::max<size_t>(static_cast<size_t>(count) * c10::elementSize(dtype), 1);
  void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) throw RunStopped("out of memory: {} for parameters could not be had", in_bytes(bytes));
  ::madvise(address, bytes, MADV_HUGEPAGE);
  return at::from_blob(address, {count}, [bytes](void* p) { ::munmap(p, bytes); }, at::TensorOptions(dtype));
}

ParameterUnit::ParameterUnit(std::string name, const std::vector<NamedParameter>& parameters, const UnitDtypes& dtypes)
    : name_(std::move(name)), dtypes_(dtypes) {
  for (const NamedParameter& named : parameters) {
    auto parameter = std::make_unique<Parameter>();
    parameter->name = named.name;
    parameter->shape = named.spec->shape;
    parameter->init = named.spec->init;
    parameter->offset = flat_size_;
    parameter->numel = named.spec->numel();
    flat_size_ += aligned(parameter->numel);
    parameters_.push_back(std::move(parameter));
  }
  master_ = allocate_flat(flat_size_, dtypes_.master);
  compute_ = dtypes_.compute == dtypes_.master ? master_ : allocate_flat(flat_size_, dtypes_.compute);
  for (auto& parameter : parameters_) {
    parameter->master = master_.narrow(0, parameter->offset, parameter->numel).view(parameter->shape);
    // Detached, so that an update of the flat buffer does not count as an in-place change of a graph's leaf.
    parameter->weight = compute_.narrow(0, parameter->offset, parameter->numel).view(parameter->shape).detach().requires_grad_(true);
  }
}

void ParameterUnit::allocate_gradients() {
  gradient_ = allocate_flat(flat_size_, dtypes_.gradient);
  for (auto& parameter : parameters_) {
    parameter->sink = GradientSink(gradient_.narrow(0, parameter->offset, parameter->numel).view(parameter->shape));
  }
}

void ParameterUnit::begin_step() {
  for (auto& parameter : parameters_) parameter->sink.begin_step();
}

void ParameterUnit::finish_step() {
  for (auto& parameter : parameters_) parameter->sink.finish_step();
}

void ParameterUnit::gather() {
  if (compute_generation_ == master_generation_) return;
  if (!compute_.is_same(master_)) {
    at::NoGradGuard no_grad;
    compute_.copy_(master_);
  }
  compute_generation_ = master_generation_;
}

}  // namespace trine
