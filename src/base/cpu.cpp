#include "base/cpu.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace trine {
namespace {

InstructionSet widest() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    return __builtin_cpu_supports("avx512bf16") ? InstructionSet::kAvx512Bf16 : InstructionSet::kAvx512;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return InstructionSet::kAvx2;
#endif
  return InstructionSet::kPortable;
}

}  // namespace

InstructionSet instruction_set() {
  static const InstructionSet chosen = [] {
    const char* wanted = std::getenv("TRINE_INSTRUCTION_SET");
    const std::string_view name = wanted ? wanted : "";
    if (name == "portable") return InstructionSet::kPortable;
    if (name == "avx512") return std::min(widest(), InstructionSet::kAvx512);
    if (name == "avx2") return std::min(widest(), InstructionSet::kAvx2);
    return widest();
  }();
  return chosen;
}

}  // namespace trine
