// Progress of long work: on a terminal one line at the bottom, drawn over itself, with the remaining time; elsewhere plain lines now and
// then in the log. Log lines appear above the status line.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace trine {

class Progress {
 public:
  // What appears where there is no terminal.
  enum class Plain { kLines, kNothing };

  // `label` opens the line ("loading weights"); `total` units of work lie ahead, of which `done` are behind; `fd` is where it is drawn if
  // it is a terminal.
  Progress(std::string label, int64_t total, int64_t done = 0, Plain plain = Plain::kLines, int fd = 2);
  Progress(const Progress&) = delete;
  ~Progress();  // erases the status line

  // Redraws if the last drawing is at least 100 ms old. `note` follows the count ("loss 3.21"). Safe to call from any thread.
  void update(int64_t done, std::string_view note = {});

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// `label  40% 120/300  note  1 min 02 s left`, cut to `width` columns. `seconds_left` negative: not known yet.
std::string progress_line(std::string_view label, int64_t done, int64_t total, std::string_view note, double seconds_left, int width);

namespace detail {
// For the log: takes the status line off the terminal while a line is written, then draws it again.
void hide_status_line();
void show_status_line();
}  // namespace detail

}  // namespace trine
