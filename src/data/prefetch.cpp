#include "data/prefetch.h"

#include <algorithm>
#include <csignal>

namespace trine {

std::optional<PlacedRow> Prefetcher::make() {
  std::optional<Row> row = packer_.next();
  if (!row) return std::nullopt;
  return PlacedRow{std::move(*row), packer_.state()};
}

void Prefetcher::work() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || static_cast<int64_t>(ready_.size()) < ahead_; });
      if (stopping_) return;
    }
    std::optional<PlacedRow> row;
    std::exception_ptr failure;
    try {
      row = make();
    } catch (...) {
      failure = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    if (row) {
      ready_.push_back(std::move(*row));
    } else {
      ended_ = true;
      failure_ = failure;
    }
    changed_.notify_all();
    if (ended_) return;
  }
}

std::optional<PlacedRow> Prefetcher::take(int64_t ahead) {
  if (ahead == 0 && !thread_.joinable()) {
    if (failure_) std::rethrow_exception(failure_);  // rather than go on behind the row that could not be made
    try {
      return make();
    } catch (...) {
      failure_ = std::current_exception();
      throw;
    }
  }
  std::unique_lock lock(mutex_);
  ahead_ = std::max<int64_t>(ahead, 1);
  changed_.notify_all();
  if (!thread_.joinable()) {
    // Signals are for the threads that handle them; a new thread inherits the mask.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread(&Prefetcher::work, this);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  changed_.wait(lock, [&] { return !ready_.empty() || ended_; });
  if (ready_.empty()) {
    if (failure_) std::rethrow_exception(failure_);
    return std::nullopt;
  }
  PlacedRow row = std::move(ready_.front());
  ready_.pop_front();
  changed_.notify_all();
  return row;
}

void Prefetcher::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  ready_.clear();
  stopping_ = ended_ = false;
  failure_ = nullptr;
}

}  // namespace trine
