#include "base/json.h"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/errors.h"
#include "base/files.h"

namespace trine {
namespace {

constexpr size_t kDeepestNesting = 256;

// Passes every event on to nlohmann's own tree builder, after checking for duplicate keys and depth.
class StrictBuilder : public nlohmann::detail::json_sax_dom_parser<Json> {
 public:
  using Base = nlohmann::detail::json_sax_dom_parser<Json>;
  StrictBuilder(Json& result, std::string_view where) : Base(result, true), where_(where) {}

  bool start_object(std::size_t elements) {
    enter();
    return Base::start_object(elements);
  }
  bool key(std::string& name) {
    if (!keys_.back().insert(name).second) throw UserError("{}: key \"{}\" is given twice in one object", where_, name);
    return Base::key(name);
  }
  bool end_object() {
    keys_.pop_back();
    return Base::end_object();
  }
  bool start_array(std::size_t elements) {
    enter();
    return Base::start_array(elements);
  }
  bool end_array() {
    keys_.pop_back();
    return Base::end_array();
  }

 private:
  void enter() {
    keys_.emplace_back();
    if (keys_.size() > kDeepestNesting) throw UserError("{}: nested deeper than {} levels", where_, kDeepestNesting);
  }

  std::string_view where_;
  std::vector<std::set<std::string>> keys_;
};

}  // namespace

Json parse_json(std::string_view text, std::string_view where) {
  Json result;
  StrictBuilder builder(result, where);
  try {
    Json::sax_parse(text.begin(), text.end(), &builder);
  } catch (const nlohmann::json::exception& e) {
    const std::string what = e.what();  // "[json.exception.parse_error.101] parse error at line 1, column 3: ..."
    const size_t bracket = what.find("] ");
    throw UserError("{}: not valid JSON: {}", where, bracket == std::string::npos ? what : what.substr(bracket + 2));
  }
  return result;
}

Json read_json_file(const std::filesystem::path& file) { return parse_json(read_file(file), file.string()); }

}  // namespace trine
