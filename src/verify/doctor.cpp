#include "verify/doctor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <link.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "base/files.h"
#include "base/format.h"
#include "base/versions.h"
#include "metrics/memory.h"
#include "metrics/peaks.h"

namespace trine {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kGiB = int64_t{1} << 30;

using Findings = std::vector<Finding>;

// Unlike read_file(): files of /proc have no size, and a missing one is only a fact that is not known.
std::string content_of(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

// The folder that libtorch_cpu.so was loaded from; empty if it was not.
fs::path loaded_libtorch_folder() {
  fs::path folder;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* result) {
        const fs::path library = info->dlpi_name;
        if (library.filename() == "libtorch_cpu.so") *static_cast<fs::path*>(result) = library.parent_path();
        return 0;
      },
      &folder);
  return folder;
}

void add_versions(Findings& findings) {
  findings.push_back({"versions", "trine", fmt::format("{} ({})", kTrineVersion, git_commit()), "", ""});
  std::string built_with;
  for (const LibraryVersion& library : library_versions()) {
    if (library.name == "torch") built_with = library.found;
    const std::string warning =
        is_tested(library) ? "" : fmt::format("tested with {}; run the tests before trusting this one", library.tested);
    findings.push_back({"versions", library.name, library.found, "", warning});
  }
  if (const fs::path folder = loaded_libtorch_folder(); !folder.empty()) {
    const std::string loaded = torch_version_beside(folder);
    const bool same = loaded.empty() || loaded == built_with;
    findings.push_back({"versions", "libtorch loaded from", folder.string(), "",
                        same ? "" : fmt::format("this is {}, but trine was built with {}; build it again", loaded, built_with)});
  }
}

void add_cpu(Findings& findings) {
  findings.push_back({"cpu", "name", cpu_name(), "", ""});
  cpu_set_t usable;
  CPU_ZERO(&usable);
  const int64_t cores = sched_getaffinity(0, sizeof usable, &usable) == 0 ? CPU_COUNT(&usable) : 0;
  findings.push_back({"cpu", "usable cores", cores, "", ""});

  const std::vector<std::string> sets = matrix_instructions(content_of("/proc/cpuinfo"));
  const auto has = [&sets](std::string_view set) { return std::ranges::find(sets, set) != sets.end(); };
  std::string warning;
  if (!has("avx2") && !has("asimd")) {
    warning = "no AVX2: training will be very slow";
  } else if (!has("avx512_bf16") && !has("amx_bf16") && !has("bf16")) {
    warning = "no bfloat16 products: computing in float32 (training.mixed_precision_param) will be faster";
  }
  findings.push_back({"cpu", "instructions", fmt::format("{}", fmt::join(sets, " ")), "", warning});
}

void add_size(Findings& findings, const char* group, const char* name, int64_t bytes, int64_t enough, const char* otherwise) {
  findings.push_back({group, name, bytes, in_bytes(static_cast<uint64_t>(bytes)), bytes < enough ? otherwise : ""});
}

int64_t available_memory() {
  std::istringstream lines(content_of("/proc/meminfo"));
  for (std::string name, rest; lines >> name; std::getline(lines, rest)) {
    int64_t kibibytes = 0;
    if (name == "MemAvailable:" && lines >> kibibytes) return kibibytes * 1024;
  }
  return 0;
}

void add_memory(Findings& findings) {
  const auto capacity = static_cast<int64_t>(memory_capacity_bytes());
  add_size(findings, "memory", "for this process", capacity, 4 * kGiB,
           "quickstart needs about 2 GiB, SmolLM2-135M 3 GiB, Qwen3-0.6B 12 GiB");
  add_size(findings, "memory", "available now", std::min(capacity, available_memory()), 3 * kGiB, "other programs use most of the memory");
  const std::string huge_pages = content_of("/sys/kernel/mm/transparent_hugepage/enabled");  // "always [madvise] never"
  const size_t open = huge_pages.find('['), close = huge_pages.find(']');
  if (open != std::string::npos && close != std::string::npos) {
    const std::string chosen = huge_pages.substr(open + 1, close - open - 1);
    findings.push_back({"memory", "huge pages", chosen, "", chosen == "never" ? "large buffers will be slower to touch; set madvise" : ""});
  }
}

void add_disk(Findings& findings, const fs::path& folder) {
  add_size(findings, "disk", "free here", static_cast<int64_t>(free_disk_bytes(folder)), 10 * kGiB,
           "a checkpoint takes 12 bytes a parameter (Qwen3-0.6B 7 GiB), and an export 2 to 4");
  struct statvfs shared {};
  if (statvfs("/dev/shm", &shared) == 0) {
    add_size(findings, "disk", "/dev/shm", static_cast<int64_t>(shared.f_blocks * shared.f_frsize), kGiB,
             "too small for several ranks on one host; containers set it with --shm-size");
  }
}

void add_limit(Findings& findings, const char* name, int resource, bool in_bytes_shown, rlim_t enough, const char* otherwise) {
  rlimit limit{};
  if (getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0) return;
  const bool unlimited = limit.rlim_cur == RLIM_INFINITY;
  const auto value = unlimited ? int64_t{-1} : static_cast<int64_t>(limit.rlim_cur);
  const std::string text = unlimited ? "unlimited" : in_bytes_shown ? in_bytes(limit.rlim_cur) : std::to_string(value);
  findings.push_back({"limits", name, value, text, !unlimited && limit.rlim_cur < enough ? otherwise : ""});
}

void add_limits(Findings& findings) {
  add_limit(findings, "open files", RLIMIT_NOFILE, false, 1024, "many shards and ranks need more; ulimit -n 4096");
  add_limit(findings, "address space", RLIMIT_AS, true, RLIM_INFINITY, "mapped weights count against it; ulimit -v unlimited");
  add_limit(findings, "file size", RLIMIT_FSIZE, true, RLIM_INFINITY, "checkpoints may not fit; ulimit -f unlimited");
}

}  // namespace

std::vector<std::string> matrix_instructions(std::string_view cpuinfo) {
  std::set<std::string, std::less<>> listed;
  std::istringstream lines{std::string(cpuinfo)};
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("flags") && !line.starts_with("Features")) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    for (std::string word; words >> word;) listed.insert(word);
    break;  // one core stands for all
  }
  std::vector<std::string> found;
  for (const char* set : {"avx2", "fma", "f16c", "avx512f", "avx512_bf16", "avx512_vnni", "amx_tile", "amx_bf16", "asimd", "sve", "bf16"}) {
    if (listed.contains(set)) found.emplace_back(set);
  }
  return found;
}

std::string torch_version_beside(const fs::path& library_folder) {
  std::istringstream lines(content_of(library_folder.parent_path() / "version.py"));
  for (std::string line; std::getline(lines, line);) {
    const size_t open = line.find('\''), close = line.rfind('\'');
    if (line.starts_with("__version__") && open < close) return line.substr(open + 1, close - open - 1);
  }
  return "";
}

std::vector<Finding> examine_machine(const fs::path& folder) {
  Findings findings;
  add_versions(findings);
  add_cpu(findings);
  add_memory(findings);
  add_disk(findings, folder);
  add_limits(findings);
  for (Finding& finding : findings) {
    if (const auto* text = std::get_if<std::string>(&finding.value); text && finding.text.empty()) finding.text = *text;
    if (const auto* number = std::get_if<int64_t>(&finding.value); number && finding.text.empty()) finding.text = std::to_string(*number);
  }
  return findings;
}

}  // namespace trine
