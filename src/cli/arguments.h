// What one command takes on its command line: positional words, flags of its own, and options of the recipe (--section.name).
//
//     bool json = false;
//     std::string path;
//     Arguments arguments("trine inspect", "Prints what a folder or file holds.");
//     arguments.positional("PATH", path, "a model folder, checkpoint, run folder or safetensors file");
//     arguments.flag("--json", json, "print the facts as JSON");
//     if (!arguments.parse(words)) return 0;  // --help was asked for and printed
//
// Ours rather than a library's because recipe options stand between a command's own words, and whether the word after
// `--debug.deterministic` is its value is known only to the option table.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"

namespace trine {

class Arguments {
 public:
  Arguments(std::string usage, std::string summary) : usage_(std::move(usage)), summary_(std::move(summary)) {}

  // Words that are no flags, in the order declared. An optional one keeps the value it has; `rest` takes all that remain.
  void positional(std::string name, std::string& value, std::string help);
  void optional_positional(std::string name, std::string& value, std::string help);
  void rest(std::string name, Words& values, std::string help);

  // Flags, with their leading dashes ("--json"). Values follow as the next word or after `=`; the help shows the value that the
  // variable has as the default. A vector collects repeated flags.
  void flag(std::string name, bool& value, std::string help);
  // T: std::string, int64_t, double, an optional number, or Words.
  template <class T>
  void option(std::string name, std::string value_name, T& value, std::string help);

  // Lets recipe options stand anywhere; they are collected as written, for load_config().
  void recipe_options(Words& options);

  // Text printed after the flags by --help.
  void notes(std::string text) { notes_ = std::move(text); }

  // Fills the variables. False if --help or -h was among the words: the help was printed. Throws UserError for an unknown flag (with
  // the nearest one), a missing or superfluous word, or a value of the wrong type.
  bool parse(const Words& words);

  std::string help() const;

 private:
  struct Positional {
    std::string name, help;
    bool required;
    std::string* value;  // one word, or
    Words* values;       // all that remain
  };
  struct Flag {
    std::string name, value_name, help, default_text;
    std::function<void(const std::string&)> set;
  };

  void take_flag(const Words& words, size_t& i);
  void take_positional(const std::string& word);
  std::vector<std::string> flag_names() const;

  std::string usage_, summary_, notes_;
  std::vector<Positional> positionals_;
  std::vector<Flag> flags_;
  size_t num_taken_ = 0;  // positionals already filled
  Words* recipe_options_ = nullptr;
};

}  // namespace trine
