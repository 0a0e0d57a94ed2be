// The four ways a command can end other than well, as exception types that main() turns into exit codes.
//
// A message says what is wrong, where (file:line or tensor name), what was found, what was expected, and what to do. Libraries throw;
// only main() prints and exits. Anything that is not one of these types is our own fault and ends with exit code 1.
#pragma once

#include <fmt/format.h>

#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace trine {

enum class ExitCode { kDone = 0, kOurFault = 1, kUserError = 2, kCheckFailed = 3, kStoppedToProtect = 4 };

// The user's mistake: a bad option, file or combination. Exit 2, one message, no stack.
class UserError : public std::runtime_error {
 public:
  explicit UserError(const std::string& message) : std::runtime_error(message) {}
  template <class... Args>
    requires(sizeof...(Args) > 0)
  explicit UserError(fmt::format_string<Args...> format, Args&&... args)
      : std::runtime_error(fmt::format(format, std::forward<Args>(args)...)) {}
};

// A check that the user asked for (verify, trial, expect) did not hold. Exit 3.
class CheckFailed : public std::runtime_error {
 public:
  explicit CheckFailed(const std::string& message) : std::runtime_error(message) {}
  template <class... Args>
    requires(sizeof...(Args) > 0)
  explicit CheckFailed(fmt::format_string<Args...> format, Args&&... args)
      : std::runtime_error(fmt::format(format, std::forward<Args>(args)...)) {}
};

// The run was stopped to protect it (non-finite values, disk full, out of memory); the last good checkpoint is intact. Exit 4.
class RunStopped : public std::runtime_error {
 public:
  explicit RunStopped(const std::string& message) : std::runtime_error(message) {}
  template <class... Args>
    requires(sizeof...(Args) > 0)
  explicit RunStopped(fmt::format_string<Args...> format, Args&&... args)
      : std::runtime_error(fmt::format(format, std::forward<Args>(args)...)) {}
};

// The candidate nearest to `name` (case and `-`/`_` ignored) within a third of its length in edits; empty if none is near.
std::string nearest(std::string_view name, std::span<const std::string> candidates);

// ` Did you mean "x"?` for the nearest candidate, else ` Known: a, b, c.` (at most `limit` names), to append to a message.
std::string suggest(std::string_view name, std::span<const std::string> candidates, size_t limit = 12);

}  // namespace trine
