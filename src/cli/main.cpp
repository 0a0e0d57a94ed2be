// The `trine` program: finds the command, and turns exceptions into one message and an exit code (docs/cli.md).
#include <fmt/format.h>

#include <new>

#include "base/errors.h"
#include "base/log.h"
#include "base/versions.h"
#include "cli/commands.h"

namespace trine {
namespace {

const Command kCommands[] = {
    kTrainCommand,
    kTrialCommand,
    kGenerateCommand,
    kEvalCommand,
    kExportCommand,
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
  log::only_to_file(log::Level::kError, std::string(message));  // a run's log.txt says why it ended
  return static_cast<int>(code);
}

constexpr const char* kOutOfMemory =
    "out of memory. Use fewer rows (training.local_batch_size), shorter ones (training.seq_len) or activation checkpointing "
    "(activation_checkpoint.mode = full). Checkpoints that were published are intact.";

// libtorch reports a failed allocation as an error of its own.
bool is_out_of_memory(const std::exception& error) {
  return dynamic_cast<const std::bad_alloc*>(&error) || std::string_view(error.what()).find("can't allocate memory") != std::string_view::npos;
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
    if (is_out_of_memory(error)) return fail(ExitCode::kStoppedToProtect, kOutOfMemory);
    return fail(ExitCode::kOurFault, fmt::format("internal error: {}", error.what()));
  }
}

}  // namespace
}  // namespace trine

int main(int count, char** words) { return trine::run(trine::Words(words + 1, words + count)); }
