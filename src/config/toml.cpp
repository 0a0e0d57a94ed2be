#include "config/toml.h"

#include <fmt/format.h>

#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include "base/errors.h"
#include "base/files.h"
#include "config/lookup.h"
#include "config/option.h"

namespace trine {
namespace {

template <class T>
std::optional<std::vector<T>> elements_of(const toml::array& array) {
  std::vector<T> elements;
  for (const toml::node& node : array) {
    if (!node.is<T>() && !(std::is_same_v<T, double> && node.is_integer())) return std::nullopt;
    elements.push_back(*node.value<T>());
  }
  return elements;
}

// nullopt for what no option takes: dates, tables, and arrays of unlike elements.
std::optional<Value> value_of(const toml::node& node) {
  if (const auto* value = node.as_boolean()) return Value(value->get());
  if (const auto* value = node.as_integer()) return Value(value->get());
  if (const auto* value = node.as_floating_point()) return Value(value->get());
  if (const auto* value = node.as_string()) return Value(value->get());
  if (const auto* array = node.as_array()) {
    if (auto texts = elements_of<std::string>(*array)) return Value(*texts);
    if (auto integers = elements_of<int64_t>(*array)) return Value(*integers);
    if (auto numbers = elements_of<double>(*array)) return Value(*numbers);
  }
  return std::nullopt;
}

std::string text_of(const toml::node& node) {
  std::ostringstream text;
  node.visit([&text](const auto& value) { text << value; });
  return text.str();
}

class RecipeReader {
 public:
  RecipeReader(const std::filesystem::path& file, Config& config, Origins& origins) : file_(file), config_(config), origins_(origins) {}

  void read(const toml::table& recipe) {
    for (const auto& [key, node] : recipe) {
      if (const toml::table* section = node.as_table()) {
        read_section(std::string(key.str()), *section);
      } else {
        throw UserError("{}: {} stands outside a section: options are written under [section] lines, as section.name.", at(node),
                        key.str());
      }
    }
  }

 private:
  void read_section(const std::string& section, const toml::table& table) {
    require_section(section, at(table));
    for (const auto& [key, node] : table) read_option(section, std::string(key.str()), node);
  }

  void read_option(const std::string& section, const std::string& name, const toml::node& node) {
    const std::string where = at(node);
    const std::optional<Value> value = value_of(node);
    if (asks_nothing_of_later_feature(section, name, value ? to_toml(*value) : text_of(node), where)) return;
    const Option& option = require_option(section, name, where);
    if (!value) throw_wrong_type(option, text_of(node), where);
    option.set(config_, accept(option, *value, where));
    origins_[option.full_name()] = where;
  }

  std::string at(const toml::node& node) const { return fmt::format("{}:{}", file_.string(), node.source().begin.line); }

  const std::filesystem::path& file_;
  Config& config_;
  Origins& origins_;
};

}  // namespace

void apply_recipe(const std::filesystem::path& file, Config& config, Origins& origins) {
  const std::string text = read_file(file);
  // A dotted key makes a table for each of its parts, and toml++ walks them by recursion without a limit. No recipe is near this size.
  constexpr size_t kLargestRecipe = size_t{64} << 10;
  if (text.size() > kLargestRecipe) {
    throw UserError("{}: a recipe of {} bytes is more than the {} that are read. Is it the file you meant?", file.string(), text.size(), kLargestRecipe);
  }
  toml::table recipe;
  try {
    recipe = toml::parse(text, file.string());
  } catch (const toml::parse_error& error) {
    throw UserError("{}:{}: not valid TOML: {}", file.string(), error.source().begin.line, error.description());
  }
  RecipeReader(file, config, origins).read(recipe);
  config.recipe = file;
}

}  // namespace trine
