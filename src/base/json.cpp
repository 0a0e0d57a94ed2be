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
template <class Value>
class StrictBuilder : public nlohmann::detail::json_sax_dom_parser<Value> {
 public:
  using Base = nlohmann::detail::json_sax_dom_parser<Value>;
  StrictBuilder(Value& result, std::string_view where) : Base(result, true), where_(where) {}

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
  bool number_float(double value, const std::string& text) {
    // Elsewhere such integers stand for "without limit" (model_max_length); where a text is rendered again they must not change.
    constexpr bool must_be_exact = std::is_same_v<Value, OrderedJson>;
    if (must_be_exact && text.find_first_of(".eE") == std::string::npos) throw UserError("{}: {} does not fit 64 bits", where_, text);
    return Base::number_float(value, text);
  }

 private:
  void enter() {
    keys_.emplace_back();
    if (keys_.size() > kDeepestNesting) throw UserError("{}: nested deeper than {} levels", where_, kDeepestNesting);
  }

  std::string_view where_;
  std::vector<std::set<std::string>> keys_;
};

template <class Value>
Value parse_strictly(std::string_view text, std::string_view where) {
  Value result;
  StrictBuilder<Value> builder(result, where);
  try {
    Value::sax_parse(text.begin(), text.end(), &builder);
  } catch (const nlohmann::json::exception& e) {
    const std::string what = e.what();  // "[json.exception.parse_error.101] parse error at line 1, column 3: ..."
    const size_t bracket = what.find("] ");
    throw UserError("{}: not valid JSON: {}", where, bracket == std::string::npos ? what : what.substr(bracket + 2));
  }
  return result;
}

}  // namespace

Json parse_json(std::string_view text, std::string_view where) { return parse_strictly<Json>(text, where); }

OrderedJson parse_ordered_json(std::string_view text, std::string_view where) { return parse_strictly<OrderedJson>(text, where); }

Json read_json_file(const std::filesystem::path& file) { return parse_json(read_file(file), file.string()); }

}  // namespace trine
