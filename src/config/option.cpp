#include "config/option.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/errors.h"

namespace trine {
namespace {

constexpr std::string_view kUnsetWord = "none";

std::string toml_string(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    switch (c) {
      case '"': result += "\\\""; break;
      case '\\': result += "\\\\"; break;
      case '\n': result += "\\n"; break;
      case '\r': result += "\\r"; break;
      case '\t': result += "\\t"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
          result += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
        } else {
          result += c;
        }
    }
  }
  return result + '"';
}

std::string element_text(bool value) { return value ? "true" : "false"; }
std::string element_text(int64_t value) { return std::to_string(value); }
std::string element_text(const std::string& value) { return toml_string(value); }
std::string element_text(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";  // else TOML reads a whole number
  return text;
}

template <class T>
std::string element_text(const std::vector<T>& values) {
  std::string text;
  for (const T& value : values) text += (text.empty() ? "" : ", ") + element_text(value);
  return "[" + text + "]";
}

const char* type_text(OptionType type) {
  switch (type) {
    case OptionType::kBool: return "true or false";
    case OptionType::kInteger: return "a whole number";
    case OptionType::kNumber: return "a number";
    case OptionType::kText: return "text";
    case OptionType::kIntegers: return "a list of whole numbers";
    case OptionType::kNumbers: return "a list of numbers";
    case OptionType::kTexts: return "a list of texts";
  }
  return "";
}

template <class To, class From>
std::vector<To> cast_elements(const std::vector<From>& values) {
  return {values.begin(), values.end()};
}

// `value` as the wider type that the option has; nullopt if that would change what was written.
std::optional<Value> widen(const Value& value, OptionType type) {
  if (type_of(value) == type) return value;
  if (const auto* integer = std::get_if<int64_t>(&value)) {
    if (type == OptionType::kNumber) return static_cast<double>(*integer);
    if (type == OptionType::kIntegers) return std::vector{*integer};
    if (type == OptionType::kNumbers) return std::vector{static_cast<double>(*integer)};
  }
  if (const auto* number = std::get_if<double>(&value); number && type == OptionType::kNumbers) return std::vector{*number};
  if (const auto* text = std::get_if<std::string>(&value); text && type == OptionType::kTexts) return std::vector{*text};
  if (const auto* list = std::get_if<std::vector<int64_t>>(&value); list && type == OptionType::kNumbers) {
    return cast_elements<double>(*list);
  }
  if (const auto* list = std::get_if<std::vector<std::string>>(&value); list && list->empty()) {  // an empty list has no element type
    if (type == OptionType::kIntegers) return std::vector<int64_t>{};
    if (type == OptionType::kNumbers) return std::vector<double>{};
  }
  return std::nullopt;
}

template <class T>
constexpr bool kIsVector = false;
template <class T>
constexpr bool kIsVector<std::vector<T>> = true;

template <class T>
bool holds(const Check& check, const T& value) {
  if constexpr (kIsVector<T>) {
    return std::ranges::all_of(value, [&check](const auto& element) { return holds(check, element); });
  } else if constexpr (std::is_same_v<T, std::string>) {
    return check.names.empty() || std::ranges::find(check.names, value) != check.names.end();
  } else if constexpr (std::is_same_v<T, bool>) {
    return true;
  } else {
    const auto number = static_cast<double>(value);
    return std::isfinite(number) && (!check.number || check.number(number));
  }
}

// The first text that a check refuses; for the nearest known name in the message.
std::string first_refused_text(const Check& check, const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
    for (const std::string& text : *texts) {
      if (!holds(check, text)) return text;
    }
  }
  return "";
}

[[noreturn]] void throw_refused(const Option& option, const Value& value, std::string_view where) {
  const std::string refused = first_refused_text(option.check, value);
  const std::string start = fmt::format("{}: {} = {}", where, option.full_name(), to_toml(value));
  for (const std::string& name : option.check.names_of_later) {
    if (name == refused) throw UserError("{}: this version of Trine cannot do that yet; it takes {}.", start, takes(option));
  }
  std::string near = nearest(refused, option.check.names);
  if (!near.empty()) near = fmt::format(" Did you mean \"{}\"?", near);
  throw UserError("{} is not possible: it takes {} ({}).{}", start, takes(option), option.help, near);
}

template <class Number>
std::optional<Number> number_of(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

template <class Number>
std::optional<Value> numbers_of(const std::vector<std::string>& texts) {
  std::vector<Number> numbers;
  for (const std::string& text : texts) {
    const auto number = number_of<Number>(text);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t start = 0; start < text.size();) {
    const size_t comma = std::min(text.find(',', start), text.size());
    parts.push_back(text.substr(start, comma - start));
    start = comma + 1;
  }
  return parts;
}

template <class T>
std::optional<Value> as_value(const std::optional<T>& value) {
  return value ? std::optional<Value>(*value) : std::nullopt;
}

std::optional<Value> value_of_text(OptionType type, const std::string& text) {
  switch (type) {
    case OptionType::kBool:
      return text == "true" ? std::optional<Value>(true) : text == "false" ? std::optional<Value>(false) : std::nullopt;
    case OptionType::kInteger: return as_value(number_of<int64_t>(text));
    case OptionType::kNumber: return as_value(number_of<double>(text));
    case OptionType::kText: return text;
    case OptionType::kIntegers: return numbers_of<int64_t>(split_at_commas(text));
    case OptionType::kNumbers: return numbers_of<double>(split_at_commas(text));
    case OptionType::kTexts: return split_at_commas(text);
  }
  return std::nullopt;
}

}  // namespace

Check anything() { return {}; }
Check at_least(double least) {
  return {fmt::format("at least {}", least), [=](double v) { return v >= least; }, {}, {}};
}
Check at_least_or(double least, double special) {
  return {fmt::format("at least {}, or {}", least, special), [=](double v) { return v >= least || v == special; }, {}, {}};
}
Check above(double bound) {
  return {fmt::format("above {}", bound), [=](double v) { return v > bound; }, {}, {}};
}
Check between(double low, double high) {
  return {fmt::format("from {} to {}", low, high), [=](double v) { return v >= low && v <= high; }, {}, {}};
}
Check one_of(std::vector<std::string> names, std::vector<std::string> names_of_later) {
  std::string allowed = fmt::format("{}", fmt::join(names, ", "));
  return {std::move(allowed), {}, std::move(names), std::move(names_of_later)};
}

std::string takes(const Option& option) {
  if (option.type == OptionType::kText && !option.check.names.empty()) return option.check.allowed;
  std::string text = type_text(option.type);
  if (!option.check.allowed.empty()) text += (is_list(option.type) ? ", each " : ", ") + option.check.allowed;
  return text;
}

std::string to_toml(const Value& value) {
  return std::visit([](const auto& v) { return element_text(v); }, value);
}

std::optional<Value> accept(const Option& option, const Value& value, std::string_view where) {
  if (option.may_be_unset && value == Value(std::string(kUnsetWord))) return std::nullopt;
  const std::optional<Value> typed = widen(value, option.type);
  if (!typed) throw_wrong_type(option, to_toml(value), where);
  const bool allowed = std::visit([&option](const auto& v) { return holds(option.check, v); }, *typed);
  if (!allowed) throw_refused(option, *typed, where);
  return typed;
}

std::optional<Value> accept_text(const Option& option, const std::string& text, std::string_view where) {
  if (option.may_be_unset && text == kUnsetWord) return std::nullopt;
  const std::optional<Value> value = value_of_text(option.type, text);
  if (!value) throw_wrong_type(option, toml_string(text), where);
  return accept(option, *value, where);
}

void throw_wrong_type(const Option& option, std::string_view found, std::string_view where) {
  throw UserError("{}: {} = {} has the wrong type: it takes {} ({}).", where, option.full_name(), found, takes(option), option.help);
}

}  // namespace trine
