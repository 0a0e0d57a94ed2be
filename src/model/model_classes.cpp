#include "model/model_classes.h"

#include <algorithm>
#include <array>

namespace trine {
namespace {

constexpr std::array<ModelClass, 3> kClasses = {{
    // type        architecture        q/k norm experts vocab  hidden   ffn  layers heads kv head_dim positions  bos           eos
    {"qwen3", "Qwen3ForCausalLM", true, false, 151936, 4096, 22016, 32, 32, 32, 128, 32768, std::nullopt, std::nullopt},
    {"qwen3_moe", "Qwen3MoeForCausalLM", true, true, 151936, 2048, 6144, 24, 32, 4, 0, 32768, std::nullopt, std::nullopt},
    {"llama", "LlamaForCausalLM", false, false, 32000, 4096, 11008, 32, 32, 0, 0, 2048, 1, 2},
}};

}  // namespace

std::span<const ModelClass> model_classes() { return kClasses; }

const ModelClass* find_model_class(std::string_view model_type) {
  const auto found = std::ranges::find(kClasses, model_type, &ModelClass::model_type);
  return found == kClasses.end() ? nullptr : &*found;
}

}  // namespace trine
