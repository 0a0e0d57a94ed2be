// JSON with the strictness that files from elsewhere need: a key given twice is an error, and so is nesting without end.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace trine {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;  // keeps the order of keys, for what is printed or rendered

// Parses `text`; `where` (a file name, say) opens every message. Throws UserError for malformed text, a duplicate key
// (named, with its path) or nesting deeper than 256.
Json parse_json(std::string_view text, std::string_view where);

// As parse_json, with the keys of every object in the order of the text. An integer beyond 64 bits is an error: it would lose digits.
OrderedJson parse_ordered_json(std::string_view text, std::string_view where);

// Reads and parses a file. Throws UserError as above, or if the file cannot be read.
Json read_json_file(const std::filesystem::path& file);

}  // namespace trine
