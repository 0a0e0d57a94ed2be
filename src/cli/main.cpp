// The `trine` program: finds the command, and turns exceptions into one message and an exit code (docs/cli.md).
#include <fmt/format.h>

#include "base/errors.h"
#include "base/log.h"
#include "base/versions.h"
#include "cli/commands.h"

namespace trine {
namespace {

const Command kCommands[] = {
    kTrainCommand,
    kConfigCommand,
    kTokenizeCommand,
    kInspectCommand,
    kVerifyCommand,
    kDataCommand,
    kDoctorCommand,
    kReportCommand,
};

void print_versions() {
  fmt::print("trine {} ({})\n", kTrineVersion, git_commit());
  for (const LibraryVersion& library : library_versions()) fmt::print("{} {}\n", library.name, library.found);
}

int fail(ExitCode code, std::string_view message) {
  fmt::print(stderr, "error: {}\n", message);
  return static_cast<int>(code);
}

int run(const Words& words) {
  try {
    if (!words.empty() && words[0] == "--version") {
      print_versions();
      return 0;
    }
    return dispatch("trine", kCommands, words);
  } catch (const UserError& error) {
    return fail(ExitCode::kUserError, error.what());
  } catch (const CheckFailed& error) {
    return fail(ExitCode::kCheckFailed, error.what());
  } catch (const RunStopped& error) {
    return fail(ExitCode::kStoppedToProtect, error.what());
  } catch (const std::exception& error) {
    return fail(ExitCode::kOurFault, fmt::format("internal error: {}", error.what()));
  }
}

}  // namespace
}  // namespace trine

int main(int count, char** words) { return trine::run(trine::Words(words + 1, words + count)); }
