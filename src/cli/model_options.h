// The flags of every command that opens a MODEL for inference.
#pragma once

#include <cstdint>
#include <string>

#include "cli/arguments.h"
#include "train/loaded_model.h"

namespace trine {

struct ModelOptions {
  std::string path, dtype, flavor;
  bool random = false;
  int64_t seed = 0;

  void declare(Arguments& arguments);
  LoadedModel load() const;
};

}  // namespace trine
