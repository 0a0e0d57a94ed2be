// Rows made ahead by one background thread, in order, each with the place after it.
//
// What was handed out and what is only prepared are told apart by this: a row carries its own place, so saving never asks the thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "data/packing.h"

namespace trine {

struct PlacedRow {
  Row row;
  PackState after;
};

class Prefetcher {
 public:
  explicit Prefetcher(Packer& packer) : packer_(packer) {}
  ~Prefetcher() { stop(); }

  // The next row; nullopt at the end of the data. Rethrows what the packer threw, when its turn comes and ever after. With `ahead` above 0
  // a thread keeps that many rows ready from then on; with 0 the row is made here.
  std::optional<PlacedRow> take(int64_t ahead);

  // Ends the thread and forgets what it has prepared; the packer stands wherever it got to.
  void stop();

 private:
  std::optional<PlacedRow> make();
  void work();

  Packer& packer_;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<PlacedRow> ready_;
  int64_t ahead_ = 0;
  bool stopping_ = false;
  bool ended_ = false;           // no rows after those in ready_
  std::exception_ptr failure_;   // why, if not the end of the data
};

}  // namespace trine
