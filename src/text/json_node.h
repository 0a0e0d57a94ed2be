// Values of a large JSON file (tokenizer.json has 11 MB) with their path, so that every wrong type or missing member is named.
#pragma once

#include <simdjson.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/errors.h"

namespace trine {

// A JSON value and its path in the file, for messages.
class JsonNode {
 public:
  JsonNode(std::string_view where, std::string path, simdjson::dom::element value)
      : where_(where), path_(std::move(path)), value_(value) {}

  bool is_null() const { return value_.is_null(); }
  bool is_string() const { return value_.is_string(); }

  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw UserError("{}: {}{}{}", where_, path_, path_.empty() ? "" : ": ", fmt::format(format, std::forward<Args>(args)...));
  }

  simdjson::dom::object as_object() const { return get<simdjson::dom::object>("an object"); }
  simdjson::dom::array as_array() const { return get<simdjson::dom::array>("an array"); }
  std::string_view as_string() const { return get<std::string_view>("a string"); }
  bool as_bool() const { return get<bool>("true or false"); }
  int64_t as_integer() const { return get<int64_t>("an integer"); }

  // A member, or nothing if it is absent or null. A member given twice is an error.
  std::optional<JsonNode> find(std::string_view name) const {
    std::optional<JsonNode> found;
    for (const auto& [key, value] : as_object()) {
      if (key != name) continue;
      if (found) fail("\"{}\" is given twice", name);
      found.emplace(where_, path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name), value);
    }
    if (found && found->is_null()) return std::nullopt;
    return found;
  }
  JsonNode member(std::string_view name) const {
    if (auto found = find(name)) return *std::move(found);
    fail("\"{}\" is missing", name);
  }
  bool flag(std::string_view name, bool otherwise) const {
    const auto found = find(name);
    return found ? found->as_bool() : otherwise;
  }
  std::string_view type() const { return member("type").as_string(); }

  std::vector<JsonNode> items() const {
    std::vector<JsonNode> out;
    for (const simdjson::dom::element value : as_array()) out.emplace_back(where_, fmt::format("{}[{}]", path_, out.size()), value);
    return out;
  }
  // `value` is the one at `key` of this object.
  JsonNode at(std::string_view key, simdjson::dom::element value) const {
    return JsonNode(where_, fmt::format("{}[\"{}\"]", path_, key), value);
  }

 private:
  template <class T>
  T get(std::string_view what) const {
    T out;
    if (value_.get(out) != simdjson::SUCCESS) fail("must be {}", what);
    return out;
  }

  std::string_view where_;
  std::string path_;
  simdjson::dom::element value_;
};

// Parses `json` into `parser`, which must live as long as the nodes. Throws UserError if it is not a JSON object.
inline JsonNode parse_root(simdjson::dom::parser& parser, std::string_view json, std::string_view where) {
  simdjson::dom::element root;
  if (const auto error = parser.parse(json.data(), json.size()).get(root); error != simdjson::SUCCESS) {
    throw UserError("{}: not valid JSON: {}", where, simdjson::error_message(error));
  }
  if (!root.is_object()) throw UserError("{}: not a JSON object", where);
  return JsonNode(where, "", root);
}

}  // namespace trine
