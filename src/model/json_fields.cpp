#include "model/json_fields.h"

#include <cmath>

#include "base/errors.h"

namespace trine {
namespace {

std::string shortened(const nlohmann::json& value) {
  const std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  constexpr size_t kLongest = 60;
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + "...";
}

}  // namespace

JsonFields::JsonFields(const nlohmann::json& object, std::string where) : object_(object), where_(std::move(where)) {
  if (!object.is_object()) throw UserError("{}: found {}; expected an object, as in {{\"key\": value}}", where_, shortened(object));
}

void JsonFields::wrong(const std::string& key, const std::string& expected) const {
  throw UserError("{}: \"{}\" is {}; expected {}", where_, key, shortened(object_.at(key)), expected);
}

const nlohmann::json* JsonFields::value(const std::string& key) {
  read_.insert(key);
  const auto it = object_.find(key);
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

std::optional<int64_t> JsonFields::integer(const std::string& key, int64_t least, int64_t most) {
  const nlohmann::json* found = value(key);
  if (!found) return std::nullopt;
  const auto expected = [&] { return fmt::format("a whole number from {} to {}", least, most); };
  if (!found->is_number_integer()) wrong(key, expected());
  if (found->is_number_unsigned() && found->get<uint64_t>() > static_cast<uint64_t>(most)) wrong(key, expected());
  const int64_t result = found->get<int64_t>();
  if (result < least || result > most) wrong(key, expected());
  return result;
}

std::optional<double> JsonFields::number(const std::string& key) {
  const nlohmann::json* found = value(key);
  if (!found) return std::nullopt;
  if (!found->is_number() || !std::isfinite(found->get<double>())) wrong(key, "a number");
  return found->get<double>();
}

std::optional<bool> JsonFields::boolean(const std::string& key) {
  const nlohmann::json* found = value(key);
  if (!found) return std::nullopt;
  if (!found->is_boolean()) wrong(key, "true or false");
  return found->get<bool>();
}

std::optional<std::string> JsonFields::string(const std::string& key) {
  const nlohmann::json* found = value(key);
  if (!found) return std::nullopt;
  if (!found->is_string()) wrong(key, "a string");
  return found->get<std::string>();
}

std::vector<std::string> JsonFields::unread() const {
  std::vector<std::string> result;
  for (const auto& [key, unused] : object_.items()) {
    if (!read_.contains(key)) result.push_back(key);
  }
  return result;
}

}  // namespace trine
