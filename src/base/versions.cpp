#include "base/versions.h"

#include <fmt/core.h>
#include <openssl/opensslv.h>
#include <spdlog/version.h>

#include <nlohmann/json.hpp>

namespace trine {

const std::string_view kTrineVersion = TRINE_VERSION;

std::vector<LibraryVersion> library_versions() {
  return {
      {"torch", TRINE_TORCH_VERSION, "2.13.0"},
      {"clang", __clang_version__, "19.1.7"},
      {"fmt", fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100), "9.1.0"},
      {"spdlog", fmt::format("{}.{}.{}", SPDLOG_VER_MAJOR, SPDLOG_VER_MINOR, SPDLOG_VER_PATCH), "1.10.0"},
      {"nlohmann_json",
       fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH), "3.11.2"},
      {"openssl", fmt::format("{}.{}", OPENSSL_VERSION_MAJOR, OPENSSL_VERSION_MINOR), "3.0"},
  };
}

bool is_tested(const LibraryVersion& library) {
  return library.found == library.tested || library.found.starts_with(library.tested + "+") || library.found.starts_with(library.tested + " ");
}

}  // namespace trine
