#include "base/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/log.h"

namespace trine {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point from, Clock::time_point to) { return std::chrono::duration<double>(to - from).count(); }

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written <= 0) return;  // a terminal that went away is no reason to stop the work
    text.remove_prefix(static_cast<size_t>(written));
  }
}

bool is_terminal(int fd) {
  const char* term = std::getenv("TERM");
  return ::isatty(fd) == 1 && !(term && std::string_view(term) == "dumb");
}

int terminal_width(int fd) {
  winsize size{};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

// The status lines that exist, innermost last; only that one is shown.
struct Shown {
  struct Line {
    const void* owner;
    int fd;
    std::string text;
  };
  std::mutex mutex;
  std::vector<Line> lines;

  // Both with the mutex held.
  void erase() {
    if (!lines.empty() && !lines.back().text.empty()) write_all(lines.back().fd, "\r\x1b[2K");
  }
  void draw() {
    if (!lines.empty()) write_all(lines.back().fd, lines.back().text);
  }
};

Shown& shown() {
  static Shown* instance = new Shown;  // never destroyed: the log uses it while the process ends
  return *instance;
}

}  // namespace

struct Progress::State {
  ProgressOptions options;
  bool terminal = false;
  Clock::time_point last_line;  // drawn or logged
  Clock::time_point first_update;
  int64_t first_done = -1;
};

Progress::Progress(ProgressOptions options) : state_(std::make_unique<State>()) {
  state_->options = std::move(options);
  state_->terminal = is_terminal(state_->options.fd);
  if (state_->terminal) {
    Shown& all = shown();
    const std::lock_guard lock(all.mutex);
    all.erase();
    all.lines.push_back({this, state_->options.fd, ""});
  } else {
    state_->last_line = Clock::now();
  }
}

Progress::~Progress() {
  if (!state_->terminal) return;
  Shown& all = shown();
  const std::lock_guard lock(all.mutex);
  all.erase();
  std::erase_if(all.lines, [this](const Shown::Line& line) { return line.owner == this; });
  all.draw();
}

void Progress::update(int64_t done, std::string_view note) {
  State& s = *state_;
  const auto now = Clock::now();
  if (s.first_done < 0) {
    s.first_done = done;
    s.first_update = now;
  }
  constexpr double kDrawInterval = 0.1;
  const double interval = s.terminal ? kDrawInterval : s.options.plain_interval;
  if (interval <= 0 || seconds_between(s.last_line, now) < interval) return;
  s.last_line = now;

  const int64_t behind = done - s.first_done;
  const double per_unit = seconds_between(s.first_update, now) / static_cast<double>(behind);
  const double left = behind > 0 ? per_unit * static_cast<double>(s.options.total - done) : -1;
  if (!s.terminal) {
    log::info("{}", progress_line(s.options.label, done, s.options.total, note, left, 0));
    return;
  }
  // One column stays free: a full line makes some terminals wrap.
  const std::string text = progress_line(s.options.label, done, s.options.total, note, left, terminal_width(s.options.fd) - 1);
  Shown& all = shown();
  const std::lock_guard lock(all.mutex);
  const auto line = std::ranges::find(all.lines, static_cast<const void*>(this), &Shown::Line::owner);
  if (line + 1 == all.lines.end()) {
    write_all(s.options.fd, "\r\x1b[2K" + text);
  }
  line->text = text;
}

std::string progress_line(std::string_view label, int64_t done, int64_t total, std::string_view note, double seconds_left, int width) {
  std::string line(label);
  if (total > 0) {
    const double percent = 100.0 * static_cast<double>(done) / static_cast<double>(total);
    line += fmt::format("  {:3.0f}% {}/{}", percent, with_commas(done), with_commas(total));
  } else {
    line += "  " + with_commas(done);
  }
  if (!note.empty()) line += fmt::format("  {}", note);
  if (total > 0 && seconds_left >= 0) line += "  " + in_duration(seconds_left) + " left";
  if (width > 0 && line.size() > static_cast<size_t>(width)) {
    size_t end = static_cast<size_t>(width);
    while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xC0) == 0x80) --end;  // not inside a UTF-8 character
    line.resize(end);
  }
  return line;
}

StatusLineHidden::StatusLineHidden() {
  shown().mutex.lock();
  shown().erase();
}

StatusLineHidden::~StatusLineHidden() {
  shown().draw();
  shown().mutex.unlock();
}

}  // namespace trine
