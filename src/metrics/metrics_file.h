// metrics.jsonl: one JSON object per step and per validation, in full precision.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/files.h"
#include "metrics/records.h"

namespace trine {

// Appends to metrics.jsonl. Each line is handed to the system as it is written, so that a killed process loses none.
class MetricsFile {
 public:
  // Opens `file` for a run that goes on after `resumed_step`: lines past that step and a torn end are cut, the rest is kept. 0 starts
  // the file anew. Throws UserError if it cannot be written or read as ours.
  MetricsFile(const std::filesystem::path& file, int64_t resumed_step);

  // `first_of_process`: set-up falls into this step, which readers of speeds leave out. Throws RunStopped on a full disk.
  void write(const StepRecord& step, const Speedometer& speed, bool first_of_process);
  void write(const ValidationRecord& validation, const Speedometer& speed);

 private:
  FileWriter writer_;
};

// A run's metrics.jsonl read back; capacity_bytes of the memory is not in it.
struct MetricsHistory {
  struct Step : StepRecord {
    double tflops = 0;
    double mfu = -1;  // percent; negative: unknown
    bool first_of_process = false;
  };
  std::vector<Step> steps;
  std::vector<ValidationRecord> validations;
};

// Throws UserError naming file and line. A torn last line (a run that is being written, or was killed) is left out.
MetricsHistory read_metrics(const std::filesystem::path& file);

}  // namespace trine
