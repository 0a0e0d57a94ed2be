#include "metrics/memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>

namespace trine {
namespace {

namespace fs = std::filesystem;

// The value of a line `name:   123 kB` in a file of /proc, in bytes; 0 if there is none.
uint64_t kibibyte_field(const char* file, std::string_view name) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name) || line.size() <= name.size() || line[name.size()] != ':') continue;
    const size_t digits = line.find_first_of("0123456789");
    uint64_t value = 0;
    if (digits != std::string::npos) std::from_chars(line.data() + digits, line.data() + line.size(), value);
    return value * 1024;
  }
  return 0;
}

bool reset_peak() {
  const int fd = ::open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool done = ::write(fd, "5", 1) == 1;  // 5: VmHWM becomes VmRSS
  ::close(fd);
  return done;
}

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

// "max" and unreadable files are no limit.
uint64_t limit_in(const fs::path& file) {
  std::ifstream stream(file);
  uint64_t limit = 0;
  return stream >> limit ? limit : kNoLimit;
}

}  // namespace

ProcessMemory::ProcessMemory() : resettable_(reset_peak()), capacity_(memory_capacity_bytes()) { sample(); }

void ProcessMemory::sample() {
  if (!resettable_) sampled_peak_ = std::max(sampled_peak_, kibibyte_field("/proc/self/status", "VmRSS"));
}

MemoryUse ProcessMemory::take() {
  sample();
  MemoryUse use{.peak_bytes = resettable_ ? kibibyte_field("/proc/self/status", "VmHWM") : sampled_peak_, .capacity_bytes = capacity_};
  if (resettable_) reset_peak();
  sampled_peak_ = 0;
  return use;
}

std::string ProcessMemory::method() const {
  return resettable_ ? "peak resident size (VmHWM)" : "resident size (VmRSS), sampled";
}

uint64_t memory_capacity_bytes() {
  return std::min(kibibyte_field("/proc/meminfo", "MemTotal"), cgroup_memory_limit("/proc/self/cgroup", "/sys/fs/cgroup"));
}

uint64_t cgroup_memory_limit(const fs::path& cgroups, const fs::path& mount) {
  uint64_t limit = kNoLimit;
  std::ifstream lines(cgroups);
  for (std::string line; std::getline(lines, line);) {  // number:controllers:path
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool version_2 = controllers == ",,";
    if (!version_2 && controllers.find(",memory,") == std::string::npos) continue;
    const fs::path root = version_2 ? mount : mount / "memory";
    const char* const file = version_2 ? "memory.max" : "memory.limit_in_bytes";
    // Inside a container the path may be the host's, while the mount shows only the container's own group, at its root.
    for (fs::path group = fs::path(line.substr(second + 1)).relative_path();; group = group.parent_path()) {
      limit = std::min(limit, limit_in(root / group / file));
      if (group.empty()) break;
    }
  }
  return limit;
}

}  // namespace trine
