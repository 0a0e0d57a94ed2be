// metrics.jsonl: one JSON object per step and per validation, in full precision.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "base/files.h"
#include "metrics/records.h"

namespace trine {

// Appends to metrics.jsonl. Each line is handed to the system as it is written, so that a killed process loses none.
class MetricsFile {
 public:
  // Opens `file` for a run that goes on after `resumed_step` (0: from the start): lines past that step and a torn last line are cut,
  // the rest is kept. Throws UserError if it cannot be written or holds lines that are not ours.
  MetricsFile(const std::filesystem::path& file, int64_t resumed_step);

  void write(const StepRecord& step, const Speedometer& speed, bool first_of_process);
  void write(const ValidationRecord& validation, const Speedometer& speed);

 private:
  FileWriter writer_;
};

// A run's metrics.jsonl read back.
struct MetricsHistory {
  struct Step : StepRecord {
    double tps = 0, tflops = 0, mfu = -1;  // mfu negative: unknown
    double memory_gib = 0;
    bool first_of_process = false;  // set-up falls into it
  };
  struct Validation : ValidationRecord {
    double tps = 0;
  };
  std::vector<Step> steps;
  std::vector<Validation> validations;
};

// Throws UserError naming file and line. A torn last line is left out.
MetricsHistory read_metrics(const std::filesystem::path& file);

}  // namespace trine
