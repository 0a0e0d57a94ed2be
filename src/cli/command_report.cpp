// trine report: what one run came to, or several beside each other.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/files.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "metrics/report.h"

namespace trine {
namespace {

int run(const Words& words) {
  Words paths;
  bool as_json = false;
  std::string page_file;
  Arguments arguments("trine report", "Prints what runs came to: loss, validation, speed, memory; and draws their curves on a page.");
  arguments.rest("RUN", paths, "run folders, or metrics.jsonl files; several are compared");
  arguments.option("--html", "FILE", page_file, "where the page goes; of one run folder, its report.html unless given");
  arguments.flag("--json", as_json, "print the facts as JSON");
  if (!arguments.parse(words)) return 0;
  if (paths.empty()) throw UserError("trine report: no RUN is given. `trine report --help` shows how it is used.");

  std::vector<RunReport> runs;
  for (const std::string& path : paths) runs.push_back(read_run(path));
  if (page_file.empty() && paths.size() == 1 && std::filesystem::is_directory(paths[0])) page_file = paths[0] + "/report.html";
  if (!page_file.empty()) write_file_atomically(page_file, report_page(runs));

  if (as_json) {
    OrderedJson all = OrderedJson::array();
    for (const RunReport& run : runs) all.push_back(report_json(run));
    fmt::print("{}\n", all.dump(2));
  } else {
    fmt::print("{}", report_text(runs));
    fmt::print("{}\n", page_file.empty() ? "No page was written; --html FILE writes one." : "Curves: " + page_file);
  }
  return 0;
}

}  // namespace

const Command kReportCommand = {"report", "what runs came to, with curves", run};

}  // namespace trine
