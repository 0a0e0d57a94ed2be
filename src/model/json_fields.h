// One object of a config.json, read key by key: each read says what it expects, and keys that nothing read can be listed.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace trine {

class JsonFields {
 public:
  // `where` opens every message: the file, and the path of this object in it.
  JsonFields(const nlohmann::json& object, std::string where);  // throws UserError if it is not an object

  // Absent keys give nullopt, and so does null. Another type throws UserError naming key, value and what was expected.
  std::optional<int64_t> integer(const std::string& key, int64_t least, int64_t most);
  std::optional<double> number(const std::string& key);
  std::optional<bool> boolean(const std::string& key);
  std::optional<std::string> string(const std::string& key);
  const nlohmann::json* value(const std::string& key);  // any type; null pointer for an absent key or null

  bool has(const std::string& key) const { return object_.contains(key); }  // also when its value is null
  void accept(const std::string& key) { read_.insert(key); }                // counts as read without being looked at
  std::vector<std::string> unread() const;                                  // keys of the object that no call above named
  const std::string& where() const { return where_; }

  [[noreturn]] void wrong(const std::string& key, const std::string& expected) const;  // throws for the key's value

 private:
  const nlohmann::json& object_;
  std::string where_;
  std::set<std::string> read_;
};

}  // namespace trine
