// Progress of long work: on a terminal one line at the bottom, drawn over itself, with the remaining time; elsewhere plain lines now and
// then in the log. Log lines appear above the status line.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace trine {

struct ProgressOptions {
  std::string label;               // opens the line: "loading weights"
  int64_t total = 0;               // units of work; 0: unknown
  double plain_interval = 30;      // seconds between lines where there is no terminal; 0: no lines
  int fd = 2;                      // where to draw, if that is a terminal
};

class Progress {
 public:
  explicit Progress(ProgressOptions options);
  Progress(const Progress&) = delete;
  ~Progress();  // takes the status line away

  // `done` of the total are behind; `note` follows the count ("loss 3.21"). The remaining time counts from the first call on. Draws at
  // most every 100 ms, so call it as often as is handy, from one thread.
  void update(int64_t done, std::string_view note = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// `label  40% 120/300  note  1 min 02 s left`, cut to `width` columns (0: not cut). `seconds_left` negative: not known yet.
std::string progress_line(std::string_view label, int64_t done, int64_t total, std::string_view note, double seconds_left, int width);

// For the log: while one lives, the status line is off the terminal and nothing draws it.
class StatusLineHidden {
 public:
  StatusLineHidden();
  StatusLineHidden(const StatusLineHidden&) = delete;
  ~StatusLineHidden();
};

}  // namespace trine
