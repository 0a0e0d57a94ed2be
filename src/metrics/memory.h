// The highest resident size of this process within a step, and how much memory there is for it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "metrics/records.h"

namespace trine {

// Linux keeps a process's peak resident size (VmHWM) and lets it be reset through /proc/self/clear_refs. Where that is refused, the
// present size (VmRSS) is sampled instead, and a peak between two samples is missed; `method()` says which it is.
class ProcessMemory {
 public:
  ProcessMemory();

  // Only for the method without reset: notes the present size. Takes tens of microseconds; call where much memory is held.
  void sample();

  // The peak since the last call (or construction), then starts a new window.
  MemoryUse take();

  // For the start of the log: "peak resident size (VmHWM)" or "resident size (VmRSS), sampled".
  std::string method() const;

 private:
  bool resettable_ = false;
  uint64_t sampled_peak_ = 0;
  uint64_t capacity_ = 0;
};

// Memory that this process may use, in bytes: MemTotal, or the limit of its cgroup if that is lower.
uint64_t memory_capacity_bytes();

// The lowest memory limit among a process's cgroup and its parents (version 1 or 2). `cgroups` is its /proc/PID/cgroup, `mount` where
// the cgroup file systems are (/sys/fs/cgroup). The largest value if there is no limit.
uint64_t cgroup_memory_limit(const std::filesystem::path& cgroups, const std::filesystem::path& mount);

}  // namespace trine
