#include "cli/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/errors.h"
#include "config/command_line.h"

namespace trine {
namespace {

template <class Number>
Number parse_number(const std::string& flag, const std::string& text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) {
    throw UserError("{} needs {}, not \"{}\".", flag, std::is_integral_v<Number> ? "a whole number" : "a number", text);
  }
  return number;
}

template <class Number>
  requires std::is_arithmetic_v<Number>
void store(const std::string& flag, const std::string& text, Number& value) {
  value = parse_number<Number>(flag, text);
}
template <class Number>
void store(const std::string& flag, const std::string& text, std::optional<Number>& value) {
  value = parse_number<Number>(flag, text);
}
void store(const std::string& flag, const std::string& text, std::string& value) { value = text; }
void store(const std::string& flag, const std::string& text, Words& values) { values.push_back(text); }

template <class T>
std::string default_text(const T& value) {
  return fmt::format("{}", value);
}
template <class T>
std::string default_text(const std::optional<T>& value) {
  return value ? fmt::format("{}", *value) : "";
}
std::string default_text(const Words& values) { return fmt::format("{}", fmt::join(values, ", ")); }

// The word as flags are declared: without "=value", and with "-" where somebody wrote "_".
std::string flag_name(const std::string& word) {
  std::string name = word.substr(0, word.find('='));
  std::ranges::replace(name, '_', '-');
  return name;
}

bool is_flag(const std::string& word) { return word.size() > 2 && word.starts_with("--"); }
bool is_recipe_option(const std::string& word) { return is_flag(word) && word.substr(0, word.find('=')).find('.') != std::string::npos; }

}  // namespace

void Arguments::positional(std::string name, std::string& value, std::string help) {
  positionals_.push_back({std::move(name), std::move(help), true, &value, nullptr});
}

void Arguments::optional_positional(std::string name, std::string& value, std::string help) {
  positionals_.push_back({std::move(name), std::move(help), false, &value, nullptr});
}

void Arguments::rest(std::string name, Words& values, std::string help) {
  positionals_.push_back({std::move(name), std::move(help), false, nullptr, &values});
}

void Arguments::flag(std::string name, bool& value, std::string help) {
  flags_.push_back({std::move(name), "", std::move(help), "", [&value](const std::string&) { value = true; }});
}

template <class T>
void Arguments::option(std::string name, std::string value_name, T& value, std::string help) {
  const std::string shown = default_text(value);
  auto set = [&value, name](const std::string& text) { store(name, text, value); };
  flags_.push_back({std::move(name), std::move(value_name), std::move(help), shown, std::move(set)});
}
template void Arguments::option(std::string, std::string, std::string&, std::string);
template void Arguments::option(std::string, std::string, int64_t&, std::string);
template void Arguments::option(std::string, std::string, double&, std::string);
template void Arguments::option(std::string, std::string, std::optional<int64_t>&, std::string);
template void Arguments::option(std::string, std::string, std::optional<double>&, std::string);
template void Arguments::option(std::string, std::string, Words&, std::string);

void Arguments::recipe_options(Words& options) { recipe_options_ = &options; }

bool Arguments::parse(const Words& words) {
  if (std::ranges::any_of(words, [](const std::string& word) { return word == "--help" || word == "-h"; })) {
    fmt::print("{}", help());
    return false;
  }
  for (size_t i = 0; i < words.size(); ++i) {
    if (recipe_options_ && is_recipe_option(words[i])) {
      const size_t count = num_option_words(std::span(words).subspan(i));
      recipe_options_->insert(recipe_options_->end(), words.begin() + i, words.begin() + i + count);
      i += count - 1;
    } else if (is_flag(words[i])) {
      take_flag(words, i);
    } else {
      take_positional(words[i]);
    }
  }
  if (num_taken_ < positionals_.size() && positionals_[num_taken_].required) {
    throw UserError("{} needs {}: {}. `{} --help` says more.", usage_, positionals_[num_taken_].name, positionals_[num_taken_].help,
                    usage_);
  }
  return true;
}

void Arguments::take_flag(const Words& words, size_t& i) {
  const std::string& word = words[i];
  const auto flag = std::ranges::find(flags_, flag_name(word), &Flag::name);
  if (flag == flags_.end()) {
    throw UserError("{} has no flag \"{}\".{}", usage_, word.substr(0, word.find('=')), suggest(flag_name(word), flag_names()));
  }
  const size_t equals = word.find('=');
  if (flag->value_name.empty()) {
    if (equals != std::string::npos) throw UserError("{} takes no value (found \"{}\").", flag->name, word);
    flag->set("");
  } else if (equals != std::string::npos) {
    flag->set(word.substr(equals + 1));
  } else if (i + 1 < words.size() && !is_flag(words[i + 1])) {
    flag->set(words[++i]);
  } else {
    throw UserError("{} needs a value: {} {}.", flag->name, flag->name, flag->value_name);
  }
}

void Arguments::take_positional(const std::string& word) {
  if (num_taken_ == positionals_.size()) throw UserError("{}: the word \"{}\" is one too many.", usage_, word);
  const Positional& positional = positionals_[num_taken_];
  if (positional.values) {
    positional.values->push_back(word);
  } else {
    *positional.value = word;
    ++num_taken_;
  }
}

std::vector<std::string> Arguments::flag_names() const {
  std::vector<std::string> names;
  for (const Flag& flag : flags_) names.push_back(flag.name);
  names.emplace_back("--help");
  return names;
}

std::string Arguments::help() const {
  std::string line = usage_;
  std::string rows;
  const auto add_row = [&rows](const std::string& left, const std::string& help, const std::string& default_text) {
    rows += fmt::format("  {:<26} {}{}\n", left, help, default_text.empty() ? "" : fmt::format(" [{}]", default_text));
  };
  for (const Positional& positional : positionals_) {
    line += fmt::format(fmt::runtime(positional.values ? " [{}...]" : positional.required ? " {}" : " [{}]"), positional.name);
    add_row(positional.name, positional.help, positional.value && !positional.required ? *positional.value : "");
  }
  for (const Flag& flag : flags_) {
    add_row(flag.value_name.empty() ? flag.name : flag.name + " " + flag.value_name, flag.help, flag.default_text);
  }
  if (!flags_.empty()) line += " [flags]";
  if (recipe_options_) {
    line += " [options]";
    add_row("--section.name VALUE", "any option of the recipe", "");
  }
  return fmt::format("Usage: {}\n\n{}\n\n{}{}", line, summary_, rows, notes_.empty() ? "" : "\n" + notes_ + "\n");
}

}  // namespace trine
