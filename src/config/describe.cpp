#include "config/describe.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "config/options.h"

namespace trine {
namespace {

std::string default_text(const Option& option) { return option.default_value ? to_toml(*option.default_value) : "unset"; }

// A table cell: `|` would end it.
std::string cell(const std::string& text) {
  std::string result;
  for (const char c : text) result += c == '|' ? "\\|" : std::string(1, c);
  return result;
}

}  // namespace

std::string resolved_toml(const Config& config) {
  std::string text;
  for (const OptionSection& section : option_table()) {
    std::string lines;
    for (const Option& option : section.options) {
      if (const auto value = option.get(config)) lines += fmt::format("{} = {}\n", option.name, to_toml(*value));
    }
    if (!lines.empty()) text += fmt::format("{}[{}]\n{}", text.empty() ? "" : "\n", section.name, lines);
  }
  return text;
}

OrderedJson resolved_json(const Config& config) {
  OrderedJson json;
  for (const OptionSection& section : option_table()) {
    for (const Option& option : section.options) {
      OrderedJson& place = json[section.name][option.name];
      if (const auto value = option.get(config)) std::visit([&place](const auto& v) { place = v; }, *value);
    }
  }
  return json;
}

std::string option_help() {
  std::string text;
  for (const OptionSection& section : option_table()) {
    text += fmt::format("{}[{}] {}\n", text.empty() ? "" : "\n", section.name, section.help);
    for (const Option& option : section.options) {
      text += fmt::format("  --{}\n      {} [{}; default {}]\n", option.full_name(), option.help, takes(option), default_text(option));
    }
  }
  return text;
}

std::string option_markdown() {
  std::string text;
  for (const OptionSection& section : option_table()) {
    text += fmt::format("{}## {}\n\n{}\n\n| option | default | takes | meaning |\n|---|---|---|---|\n", text.empty() ? "" : "\n",
                        section.name, section.help);
    for (const Option& option : section.options) {
      text += fmt::format("| `{}` | `{}` | {} | {} |\n", option.name, default_text(option), cell(takes(option)), cell(option.help));
    }
  }
  return text;
}

}  // namespace trine
