// Which of an op's two implementations a C++ caller gets. Both are always there; the reference is what the fused one is tested against.
#pragma once

namespace trine {

enum class Implementation {
  kReference,  // plain tensor operations
  kFused,      // the registered trine:: ops, whose kernel the dispatcher chooses by device
};

}  // namespace trine
