// One option of a recipe: what options.cpp states about it, and what follows from that (parsing, checking, printing).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/config.h"

namespace trine {

// The types that options have, and the value of one. The enumerators are the alternatives' places in the variant.
using Value =
    std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>, std::vector<std::string>>;
enum class OptionType { kBool, kInteger, kNumber, kText, kIntegers, kNumbers, kTexts };

inline OptionType type_of(const Value& value) { return static_cast<OptionType>(value.index()); }
inline bool is_list(OptionType type) { return type >= OptionType::kIntegers; }

// What a value must be beyond its type. Lists: holds for each element.
struct Check {
  std::string allowed;                            // for people: "at least 1"; empty: anything
  std::function<bool(double)> number;             // for numbers; unset: any finite one
  std::vector<std::string> names;                 // for texts: one of these; empty: any
  std::vector<std::string> names_of_later;        // names that belong to a feature which this version does not have
};
Check anything();
Check at_least(double least);
Check at_least_or(double least, double special);  // or the special value, which the help explains
Check above(double bound);
Check between(double low, double high);           // both included
Check one_of(std::vector<std::string> names, std::vector<std::string> names_of_later = {});

struct Option {
  std::string section, name;
  OptionType type;
  bool may_be_unset;                   // an optional of the structs; unset unless given
  std::optional<Value> default_value;  // nullopt: unset
  Check check;
  std::string help;
  std::function<std::optional<Value>(const Config&)> get;
  std::function<void(Config&, const std::optional<Value>&)> set;  // the value's type is the option's

  std::string full_name() const { return section + "." + name; }
};

struct OptionSection {
  std::string name, help;
  std::vector<Option> options;
};

// "a whole number, at least 1", for messages and tables.
std::string takes(const Option& option);

// A value as TOML writes it; it reads back to the same value.
std::string to_toml(const Value& value);

// `value` in the option's type (a whole number for a number, one element for a list), checked. "none" unsets an option that may be unset.
// Throws UserError opening with `where`.
std::optional<Value> accept(const Option& option, const Value& value, std::string_view where);

// The same from a word of the command line; lists are comma separated.
std::optional<Value> accept_text(const Option& option, const std::string& text, std::string_view where);

// Throws the UserError for a value of the wrong type, `found` being its text.
[[noreturn]] void throw_wrong_type(const Option& option, std::string_view found, std::string_view where);

}  // namespace trine
