#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/versions.h"
#include "cli/arguments.h"
#include "cli/commands.h"

namespace trine {
namespace {

int run(const Words& words) {
  bool as_json = false;
  Arguments arguments("trine doctor", "Says whether this machine and this build are what Trine was tested on.");
  arguments.flag("--json", as_json, "print the facts as JSON");
  if (!arguments.parse(words)) return 0;
  for (const LibraryVersion& library : library_versions()) {
    fmt::print("{:<14} {} (tested with {}{})\n", library.name, library.found, library.tested, is_tested(library) ? "" : "; differs");
  }
  return 0;
}

}  // namespace

const Command kDoctorCommand = {"doctor", "versions, CPU features, memory, disk and limits of this machine", run};

}  // namespace trine
