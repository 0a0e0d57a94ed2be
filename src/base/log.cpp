#include "base/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <mutex>
#include <vector>

#include "base/errors.h"
#include "base/progress.h"

namespace trine::log {
namespace {

constexpr const char* kPattern = "%^%H:%M:%S %-7l%$ %v";
constexpr const char* kFilePattern = "%Y-%m-%d %H:%M:%S %-7l %v";

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::kDebug: return spdlog::level::debug;
    case Level::kInfo: return spdlog::level::info;
    case Level::kWarning: return spdlog::level::warn;
    case Level::kError: return spdlog::level::err;
  }
  return spdlog::level::info;
}

struct State {
  std::mutex mutex;
  std::shared_ptr<spdlog::logger> logger;
  std::vector<std::pair<spdlog::level::level_enum, std::string>> early;  // kept until a file takes them
  spdlog::sink_ptr file;

  State() {
    auto console = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
    console->set_pattern(kPattern);
    logger = std::make_shared<spdlog::logger>("trine", console);
    const char* wanted = std::getenv("TRINE_LOG");
    logger->set_level(wanted ? spdlog::level::from_str(wanted) : spdlog::level::info);
    logger->flush_on(spdlog::level::info);
  }
};

State& state() {
  static State* instance = new State;  // never destroyed: threads may log while the process ends
  return *instance;
}

}  // namespace

void write(Level level, const std::string& message) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  constexpr size_t kMostEarlyLines = 10000;
  if (!s.file && s.early.size() < kMostEarlyLines) s.early.emplace_back(to_spdlog(level), message);
  if (!s.logger->should_log(to_spdlog(level))) return;
  const StatusLineHidden hidden;
  s.logger->log(to_spdlog(level), "{}", message);
}

void also_to_file(const std::filesystem::path& file) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file.string(), /*truncate=*/false);
    sink->set_pattern(kFilePattern);
    for (const auto& [level, message] : s.early) {
      if (s.logger->should_log(level)) sink->log(spdlog::details::log_msg("trine", level, message));
    }
    s.early.clear();
    std::erase(s.logger->sinks(), s.file);
    s.logger->sinks().push_back(sink);
    s.file = sink;
  } catch (const spdlog::spdlog_ex& e) {
    throw UserError("cannot write the log file {}: {}", file.string(), e.what());
  }
}

void only_to_file(Level level, const std::string& message) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (!s.file) return;
  s.file->log(spdlog::details::log_msg("trine", to_spdlog(level), message));
  s.file->flush();
}

void set_level(Level level) { state().logger->set_level(to_spdlog(level)); }

}  // namespace trine::log
