// What a training loop tells the metrics after each step and each validation. Plain data: figures of several ranks are reduced before.
#pragma once

#include <cstdint>
#include <string>

namespace trine {

// Memory of the device (or, on a CPU, of the process) over one step.
struct MemoryUse {
  uint64_t peak_bytes = 0;      // the highest within the step; with several ranks of one machine the sum, with a device each the maximum
  uint64_t capacity_bytes = 0;  // what there is for it to fill; 0: unknown
};

// One optimiser step, summed over micro-batches and ranks.
struct StepRecord {
  int64_t step = 0;          // 1-based
  double loss = 0;           // sum over valid tokens of all ranks / their count
  double grad_norm = 0;      // of all parameters, before clipping
  double lr = 0;             // of the first parameter group, as used in this step
  int64_t tokens = 0;        // input tokens of all ranks, padding left out
  int64_t valid_tokens = 0;  // labels that count in the loss
  double seconds = 0;        // from asking for the first micro-batch to the end of the update; no saving, no validation
  double data_seconds = 0;   // part of `seconds` spent waiting for data
  MemoryUse memory{};
};

// One pass over held-out data.
struct ValidationRecord {
  int64_t step = 0;          // the training step after which it ran; 0: before the first
  double loss = 0;           // mean over valid tokens
  int64_t tokens = 0;        // input tokens, padding left out
  int64_t valid_tokens = 0;
  double seconds = 0;
  MemoryUse memory{};
};

// What turns a step's tokens and seconds into TFLOP/s and MFU.
struct Speedometer {
  int64_t num_ranks = 1;
  double flops_per_token = 0;  // forward and backward, not halved for causality; 0: unknown
  double peak_flops = 0;       // of all devices of the run together, in FLOP/s; 0: unknown, and MFU is n/a

  double tokens_per_second(int64_t tokens, double seconds) const { return seconds > 0 ? static_cast<double>(tokens) / seconds : 0; }
  double tflops(double tokens_per_second) const { return tokens_per_second * flops_per_token / 1e12; }
  // In percent; negative: unknown.
  double mfu(double tokens_per_second) const {
    return peak_flops > 0 && flops_per_token > 0 ? 100 * tokens_per_second * flops_per_token / peak_flops : -1;
  }
};

}  // namespace trine
