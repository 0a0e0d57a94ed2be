// Parquet tables: one string column, one record per row.
//
// The reading is done by Apache Arrow's C++ library, which is an optional part: libtrine_parquet.so is built where the pyarrow package
// (headers and libraries in its wheel) is found, and opened only when a recipe names Parquet files. So a run without them neither needs nor
// loads Arrow's 60 MB.
#pragma once

#include <memory>
#include <string>

#include "data/record.h"

namespace trine {

// Throws UserError if the part was not built, or if a file has no string column `column`.
std::unique_ptr<RecordReader> make_parquet_reader(std::vector<std::filesystem::path> files, const std::string& column);

}  // namespace trine
