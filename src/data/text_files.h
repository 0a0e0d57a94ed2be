// Plain text: every file is one document.
#pragma once

#include <memory>

#include "data/record.h"

namespace trine {

std::unique_ptr<RecordReader> make_text_reader(std::vector<std::filesystem::path> files);

}  // namespace trine
