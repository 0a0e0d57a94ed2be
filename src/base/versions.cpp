#include "base/versions.h"

#include <fmt/core.h>
#include <openssl/opensslv.h>
#include <simdjson.h>
#include <spdlog/version.h>
#include <toml++/impl/version.h>
#include <zlib.h>
#include <zstd.h>

#include <nlohmann/json.hpp>

namespace trine {

namespace {
std::string dotted(int major, int minor, int patch) { return fmt::format("{}.{}.{}", major, minor, patch); }
}  // namespace

const std::string_view kTrineVersion = TRINE_VERSION;

std::vector<LibraryVersion> library_versions() {
  return {
      {"torch", TRINE_TORCH_VERSION, "2.13.0"},
      {"clang", __clang_version__, "19.1.7"},
      {"fmt", dotted(FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100), "9.1.0"},
      {"spdlog", dotted(SPDLOG_VER_MAJOR, SPDLOG_VER_MINOR, SPDLOG_VER_PATCH), "1.10.0"},
      {"nlohmann_json", dotted(NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH), "3.11.2"},
      {"tomlplusplus", dotted(TOML_LIB_MAJOR, TOML_LIB_MINOR, TOML_LIB_PATCH), "3.3.0"},
      {"simdjson",
       dotted(simdjson::SIMDJSON_VERSION_MAJOR, simdjson::SIMDJSON_VERSION_MINOR, simdjson::SIMDJSON_VERSION_REVISION), "3.0.1"},
      {"zlib", ZLIB_VERSION, "1.2.13"},
      {"zstd", ZSTD_VERSION_STRING, "1.5.4"},
      {"openssl", fmt::format("{}.{}", OPENSSL_VERSION_MAJOR, OPENSSL_VERSION_MINOR), "3.0"},
  };
}

bool is_tested(const LibraryVersion& library) {
  return library.found == library.tested || library.found.starts_with(library.tested + "+") ||
         library.found.starts_with(library.tested + " ");
}

}  // namespace trine
