// The highest resident size of this process within a step, and how much memory there is for it.
#pragma once

#include <cstdint>
#include <string>

#include "metrics/records.h"

namespace trine {

// Linux keeps a process's peak resident size (VmHWM) and lets it be reset through /proc/self/clear_refs. Where that is refused, the
// present size (VmRSS) is sampled instead, and a peak between two samples is missed; `method()` says which it is.
class ProcessMemory {
 public:
  ProcessMemory();

  // Samples the present size, for the method without reset. Cheap (some 20 microseconds); call where much is held.
  void sample();

  // The peak since the last call (or construction), then starts a new window.
  MemoryUse take();

  // "peak resident size (VmHWM)" or "resident size (VmRSS), sampled".
  std::string method() const;

 private:
  bool resettable_ = false;
  uint64_t sampled_peak_ = 0;
  uint64_t capacity_ = 0;
};

// Memory that this process may use: MemTotal, or the limit of its cgroup (v1 or v2, or a parent's) if that is lower. In bytes.
uint64_t memory_capacity_bytes();

}  // namespace trine
