#include "config/command_line.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "base/errors.h"
#include "config/lookup.h"
#include "config/options.h"

namespace trine {
namespace {

constexpr std::string_view kWhere = "command line";

struct Name {
  std::string section, name;
  bool negated = false;  // written --section.no-name
};

// The name in "--section.name" or "--section.name=value".
Name name_of(const std::string& word) {
  std::string key = word.substr(2, word.find('=') - 2);
  std::ranges::replace(key, '-', '_');
  const size_t dot = key.find('.');
  Name name{key.substr(0, dot), key.substr(dot + 1)};
  const std::string positive = name.name.starts_with("no_") ? name.name.substr(3) : "";
  if (!positive.empty() && !find_option(name.section, name.name) &&
      (find_option(name.section, positive) || later_feature(name.section, positive))) {
    name.name = positive;
    name.negated = true;
  }
  return name;
}

// Without a place in the table there is no type: a value that looks like one is taken along.
bool looks_like_value(const std::string& word) {
  double number;
  return word == "true" || word == "false" ||
         std::from_chars(word.data(), word.data() + word.size(), number).ptr == word.data() + word.size();
}

bool has_value_inside(const std::string& word) { return word.find('=') != std::string::npos; }

std::string value_inside(const std::string& word) { return word.substr(word.find('=') + 1); }

// What the words say, without knowing the option's type.
std::string written_value(const Name& name, std::span<const std::string> words) {
  if (name.negated) return "false";
  if (has_value_inside(words[0])) return value_inside(words[0]);
  return words.size() == 2 ? words[1] : "true";
}

bool takes_next_word(const Name& name, std::span<const std::string> words) {
  if (has_value_inside(words[0]) || name.negated || words.size() < 2) return false;
  if (later_feature(name.section, name.name)) return looks_like_value(words[1]);
  const Option& option = require_option(name.section, name.name, kWhere);
  if (option.type == OptionType::kBool) {
    return words[1] == "true" || words[1] == "false" || (option.may_be_unset && words[1] == "none");
  }
  return !words[1].starts_with("--");
}

void append(std::optional<Value>& list, const std::optional<Value>& more) {
  std::visit(
      [&](auto& values) {
        using T = std::decay_t<decltype(values)>;
        if constexpr (requires { values.insert(values.end(), values.begin(), values.end()); } && !std::is_same_v<T, std::string>) {
          const T& added = std::get<T>(*more);
          values.insert(values.end(), added.begin(), added.end());
        }
      },
      *list);
}

std::optional<Value> value_given(const Option& option, const Name& name, std::span<const std::string> words) {
  if (name.negated) {
    if (option.type != OptionType::kBool || has_value_inside(words[0])) {
      throw UserError("{}: \"{}\": only an option that is true or false can be negated, and takes no value then; {} takes {}.", kWhere,
                      words[0], option.full_name(), takes(option));
    }
    return false;
  }
  if (has_value_inside(words[0])) return accept_text(option, value_inside(words[0]), kWhere);
  if (words.size() == 2) return accept_text(option, words[1], kWhere);
  if (option.type == OptionType::kBool) return true;
  throw UserError("{}: {} needs a value: {} ({}).", kWhere, words[0], takes(option), option.help);
}

}  // namespace

size_t num_option_words(std::span<const std::string> words) { return takes_next_word(name_of(words[0]), words) ? 2 : 1; }

void apply_command_line(std::span<const std::string> words, Config& config, Origins& origins) {
  std::set<std::string> lists_begun;
  for (size_t i = 0; i < words.size();) {
    if (!words[i].starts_with("--") || words[i].substr(0, words[i].find('=')).find('.') == std::string::npos) {
      throw UserError("{}: \"{}\" is no option; options are written --section.name value.", kWhere, words[i]);
    }
    const std::span<const std::string> taken = words.subspan(i, num_option_words(words.subspan(i)));
    i += taken.size();

    const Name name = name_of(taken[0]);
    if (asks_nothing_of_later_feature(name.section, name.name, written_value(name, taken), kWhere)) continue;

    const Option& option = require_option(name.section, name.name, kWhere);
    std::optional<Value> value = value_given(option, name, taken);
    if (is_list(option.type) && !lists_begun.insert(option.full_name()).second) {
      std::optional<Value> so_far = option.get(config);
      append(so_far, value);
      value = so_far;
    }
    option.set(config, value);
    origins[option.full_name()] = kWhere;
  }
}

}  // namespace trine
