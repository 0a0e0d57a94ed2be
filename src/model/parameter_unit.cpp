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

ParameterUnit::ParameterUnit(std::string name, const std::vector<const ModuleSpec*>& nodes, const UnitDtypes& dtypes)
    : name_(std::move(name)), dtypes_(dtypes) {
  for (const ModuleSpec* node : nodes) visit(*node, [this](const ModuleSpec& one) { lay_out(one); });
  master_ = allocate_flat(flat_size_, dtypes_.master);
  compute_ = dtypes_.compute == dtypes_.master ? master_ : allocate_flat(flat_size_, dtypes_.compute);
  for (auto& parameter : parameters_) {
    parameter->master = master_.narrow(0, parameter->offset, parameter->numel).view(parameter->shape);
  }
  for (auto& weight : weights_) {
    // Detached, so that an update of the flat buffer does not count as an in-place change of a graph's leaf.
    weight->value = compute_.narrow(0, weight->offset, weight->numel).view(weight->shape).detach().requires_grad_(true);
  }
}

void ParameterUnit::lay_out(const ModuleSpec& node) {
  size_t next = 0;
  const auto single = [&] {
    const int64_t offset = flat_size_;
    add_parameter(node, node.parameters[next++]);
    add_weight(parameters_.back()->name, parameters_.back()->shape, offset, flat_size_ - offset);
  };
  for (const StackSpec& stack : node.stacks) {
    while (next < stack.first_parameter) single();
    const int64_t offset = flat_size_;
    for (size_t i = 0; i < stack.num_parameters; ++i) add_parameter(node, node.parameters[next++]);
    add_weight(node.fqn + "." + stack.name, stack.shape, offset, flat_size_ - offset);
  }
  while (next < node.parameters.size()) single();
}

void ParameterUnit::add_parameter(const ModuleSpec& node, const ParameterSpec& spec) {
  parameters_.push_back(std::make_unique<Parameter>(Parameter{
      .name = node.fqn + "." + spec.name, .shape = spec.shape, .init = spec.init, .offset = flat_size_, .numel = spec.numel()}));
  flat_size_ += spec.numel();
}

// Ends what add_parameter began: the next one starts on a boundary.
void ParameterUnit::add_weight(std::string name, std::vector<int64_t> shape, int64_t offset, int64_t numel) {
  weights_.push_back(std::make_unique<Weight>(
      Weight{.name = std::move(name), .shape = std::move(shape), .offset = offset, .numel = numel, .value = {}, .sink = {}}));
  flat_size_ = aligned(flat_size_);
}

void ParameterUnit::allocate_gradients() {
  gradient_ = allocate_flat(flat_size_, dtypes_.gradient);
  const auto cut = [&](const auto& part) { return gradient_.narrow(0, part.offset, part.numel).view(part.shape); };
  for (auto& parameter : parameters_) parameter->gradient = cut(*parameter);
  for (auto& weight : weights_) weight->sink = GradientSink(cut(*weight));
}

void ParameterUnit::begin_step() {
  for (auto& weight : weights_) weight->sink.begin_step();
}

void ParameterUnit::finish_step() {
  for (auto& weight : weights_) weight->sink.finish_step();
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
