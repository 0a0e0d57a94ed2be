#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "verify/doctor.h"

namespace trine {
namespace {

void print_json(const std::vector<Finding>& findings) {
  OrderedJson json;
  for (const Finding& finding : findings) {
    OrderedJson& place = json[finding.group][finding.name];
    std::visit([&place](const auto& value) { place["value"] = value; }, finding.value);
    if (!finding.warning.empty()) place["warning"] = finding.warning;
  }
  fmt::print("{}\n", json.dump(2));
}

void print_text(const std::vector<Finding>& findings) {
  std::string group;
  int num_warnings = 0;
  for (const Finding& finding : findings) {
    fmt::print("{:<9} {:<21} {}\n", finding.group == group ? "" : finding.group, finding.name, finding.text);
    if (!finding.warning.empty()) {
      fmt::print("{:<9} ! {}\n", "", finding.warning);
      ++num_warnings;
    }
    group = finding.group;
  }
  fmt::print("\n{}\n", num_warnings == 0 ? "Nothing stands out." : fmt::format("{} to look at, marked with !.", num_warnings));
}

int run(const Words& words) {
  bool as_json = false;
  std::string folder = ".";
  Arguments arguments("trine doctor", "Says whether this build and this machine are ones that Trine was tested on and can work well on.");
  arguments.optional_positional("FOLDER", folder, "where runs would be written");
  arguments.flag("--json", as_json, "print the facts as JSON, sizes in bytes");
  if (!arguments.parse(words)) return 0;

  const std::vector<Finding> findings = examine_machine(folder);
  as_json ? print_json(findings) : print_text(findings);
  return 0;
}

}  // namespace

const Command kDoctorCommand = {"doctor", "versions, CPU features, memory, disk and limits of this machine", run};

}  // namespace trine
