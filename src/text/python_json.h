// JSON as Python's json.dumps(value, ensure_ascii=False) writes it, which is what chat templates put into prompts.
#pragma once

#include <string>

#include "base/json.h"

namespace trine {

std::string python_json(const OrderedJson& value);

}  // namespace trine
