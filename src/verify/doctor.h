// What `trine doctor` looks at: whether this build and this machine are ones that Trine was tested on and can work well on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace trine {

struct Finding {
  std::string group;  // versions | cpu | memory | disk | limits
  std::string name;
  std::variant<int64_t, std::string> value;  // sizes in bytes; -1: unlimited
  std::string text;                                // the value as people read it
  std::string warning;                             // what may go wrong and what to do; empty: fine
};

// Looks at the machine; `folder` is where runs would be written. Changes nothing and takes milliseconds.
std::vector<Finding> examine_machine(const std::filesystem::path& folder);

// The instruction sets among avx2, fma, f16c, avx512f, avx512_bf16, avx512_vnni, amx_tile, amx_bf16 and (on ARM) asimd, sve, bf16 that
// `cpuinfo` (the text of /proc/cpuinfo) lists, in that order.
std::vector<std::string> matrix_instructions(std::string_view cpuinfo);

// The version in a torch package's version.py ("2.13.0+cpu") beside the folder of its libraries; empty if there is none.
std::string torch_version_beside(const std::filesystem::path& library_folder);

}  // namespace trine
