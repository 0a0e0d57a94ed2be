#include "text/python_json.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

namespace trine {
namespace {

void write_string(const std::string& text, std::string& out) {
  out += '"';
  for (const char c : text) {
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      case '\f': out += "\\f"; break;
      case '\b': out += "\\b"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<int>(c));
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

// float.__repr__: the shortest digits that read back, with an exponent below 1e-4 and from 1e16 on.
void write_float(double value, std::string& out) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  std::string digits(buffer, end);  // [-]d[.ddd]e[+-]dd
  const size_t e = digits.find('e');
  const int exponent = std::stoi(digits.substr(e + 1));
  if (exponent < -4 || exponent >= 16) {
    out += digits;
    return;
  }
  digits.resize(e);
  if (digits[0] == '-') {
    out += '-';
    digits.erase(0, 1);
  }
  std::erase(digits, '.');
  const int num_digits = static_cast<int>(digits.size());
  if (exponent < 0) {
    out += "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  } else if (exponent + 1 >= num_digits) {
    out += digits + std::string(static_cast<size_t>(exponent + 1 - num_digits), '0') + ".0";
  } else {
    out += digits.substr(0, static_cast<size_t>(exponent) + 1) + "." + digits.substr(static_cast<size_t>(exponent) + 1);
  }
}

void write(const OrderedJson& value, std::string& out) {
  const char* separator = "";
  switch (value.type()) {
    case OrderedJson::value_t::object:
      out += '{';
      for (const auto& [key, item] : value.items()) {
        out += separator;
        write_string(key, out);
        out += ": ";
        write(item, out);
        separator = ", ";
      }
      out += '}';
      break;
    case OrderedJson::value_t::array:
      out += '[';
      for (const OrderedJson& item : value) {
        out += separator;
        write(item, out);
        separator = ", ";
      }
      out += ']';
      break;
    case OrderedJson::value_t::string: write_string(value.get_ref<const std::string&>(), out); break;
    case OrderedJson::value_t::number_float: write_float(value.get<double>(), out); break;
    default: out += value.dump();  // null, true, false, integers: as Python's
  }
}

}  // namespace

std::string python_json(const OrderedJson& value) {
  std::string out;
  write(value, out);
  return out;
}

}  // namespace trine
