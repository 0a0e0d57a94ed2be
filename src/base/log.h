// The program's log: lines on stderr and, once a run folder exists, in its log.txt.
//
// Results that a user asked for go to stdout with fmt::print; everything said along the way comes through here.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <string>

namespace trine::log {

enum class Level { kDebug, kInfo, kWarning, kError };

void write(Level level, const std::string& message);

// Also append every line to `file` (created if missing). Lines logged before the first such call are written to it first;
// a later call turns to another file.
void also_to_file(const std::filesystem::path& file);

// For what the terminal shows in another form: a line in the file alone, if there is one.
void only_to_file(Level level, const std::string& message);

// Lines below this level are dropped. Default kInfo; TRINE_LOG=debug|info|warning|error sets it at start.
void set_level(Level level);

template <class... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kDebug, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void warning(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kWarning, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kError, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace trine::log
