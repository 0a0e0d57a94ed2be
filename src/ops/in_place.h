// What autograd must be told of a registered op that writes into its arguments and does not return them. (torch's own fallbacks check
// and count the writes of ops that return what they wrote, and of those alone.)
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>

namespace trine {

inline void refuse_gradients(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  for (const c10::IValue& argument : torch::jit::last(*stack, op.schema().arguments().size())) {
    TORCH_CHECK(!at::GradMode::is_enabled() || !argument.isTensor() || !argument.toTensor().requires_grad(), op.schema().name(),
                " writes into its arguments and has no derivative, and a tensor given to it requires a gradient. Call it under "
                "torch.no_grad().");
  }
  at::AutoDispatchBelowAutograd below;
  op.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
}

inline void count_writes(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const auto& declared = op.schema().arguments();
  const auto given = torch::jit::last(*stack, declared.size());
  std::vector<at::Tensor> written;
  for (size_t i = 0; i < declared.size(); ++i) {
    const c10::AliasInfo* alias = declared[i].alias_info();
    if (alias && alias->isWrite()) written.push_back(given[i].toTensor());
  }
  at::AutoDispatchBelowADInplaceOrView below;
  op.redispatchBoxed(keys & c10::after_ADInplaceOrView_keyset, stack);
  for (const at::Tensor& tensor : written) tensor.unsafeGetTensorImpl()->bump_version();
}

// For the op's Autograd key: a call that a backward pass would have to go through is an error.
inline torch::CppFunction without_gradients() { return torch::CppFunction::makeFromBoxedFunction<&refuse_gradients>(); }
// For its ADInplaceOrView key: every `Tensor(a!)` has a new version afterwards, so that backward passes that need old values are refused.
inline torch::CppFunction counted_writes() { return torch::CppFunction::makeFromBoxedFunction<&count_writes>(); }

}  // namespace trine
