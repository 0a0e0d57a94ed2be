// What a run, or several beside each other, came to: figures from metrics.jsonl as a table, as JSON and as a page with curves.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "metrics/metrics_file.h"
#include "metrics/summary.h"

namespace trine {

// One run. A run that was resumed has several processes; the first step of each, into which set-up falls, is no part of `speed`.
struct RunReport {
  std::string name;
  MetricsHistory history;  // at least one step
  int64_t num_processes = 1;
  int64_t tokens = 0;
  Stretch speed;  // all steps but the first of each process; of all if there are no others
  double tflops = 0, mfu = -1;  // averages over the time of the same steps; mfu in percent, negative: unknown
  uint64_t peak_bytes = 0;
};

// `run` is a run folder or a metrics.jsonl. Throws UserError if there is none, if it is damaged, or if it holds no step.
RunReport read_run(const std::filesystem::path& run);

// Rows of cells, the first row and the first cell of each being headings; a column for each run.
std::vector<std::vector<std::string>> report_cells(std::span<const RunReport> runs);

// The cells as text with aligned columns.
std::string report_text(std::span<const RunReport> runs);

// The figures of one run, unrounded.
OrderedJson report_json(const RunReport& run);

// A page that needs nothing beside it and no network: the table, and curves of loss, gradient norm, speed and learning rate over the steps.
std::string report_page(std::span<const RunReport> runs);

}  // namespace trine
