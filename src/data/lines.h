// The non-blank lines of text files, for JSONL: mapped where the file is plain, streamed where it is .gz or .zst.
//
// A UTF-8 byte order mark, CRLF ends, blank lines and a last line without newline are all taken as they come; line numbers count every
// line, as an editor does.
#pragma once

#include <memory>

#include "data/record.h"

namespace trine {

std::unique_ptr<RecordReader> make_line_reader(std::vector<std::filesystem::path> files);

}  // namespace trine
