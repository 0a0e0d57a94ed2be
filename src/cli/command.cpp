#include "cli/command.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/errors.h"

namespace trine {
namespace {

void print_overview(std::string_view program, std::span<const Command> commands) {
  fmt::print("Usage: {} COMMAND ...\n\n", program);
  for (const Command& command : commands) fmt::print("  {:<10}  {}\n", command.name, command.summary);
  fmt::print("\n`{} COMMAND --help` describes one command.\n", program);
}

}  // namespace

int dispatch(std::string_view program, std::span<const Command> commands, const Words& words) {
  if (words.empty() || words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    print_overview(program, commands);
    return 0;
  }
  const auto found = std::ranges::find(commands, words[0], &Command::name);
  if (found == commands.end()) {
    std::vector<std::string> names;
    for (const Command& command : commands) names.emplace_back(command.name);
    throw UserError("{} has no command \"{}\".{}", program, words[0], suggest(words[0], names, names.size()));
  }
  return found->run(Words(words.begin() + 1, words.end()));
}

}  // namespace trine
