// A command of the `trine` program, and how a table of commands is dispatched (the program's own, and those of `trine verify`).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trine {

using Words = std::vector<std::string>;  // of a command line, after the command's name

struct Command {
  std::string_view name;
  std::string_view summary;        // one line for the overview
  int (*run)(const Words& words);  // returns the exit code: 0, or 128+n when signal n ended the work
};

// Runs the command that the first word names, with the words after it. `program` is what the user typed so far ("trine", "trine verify").
// No word, `help` or `--help`: the overview. Throws UserError with the nearest name for an unknown command.
int dispatch(std::string_view program, std::span<const Command> commands, const Words& words);

}  // namespace trine
