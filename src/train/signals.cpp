#include "train/signals.h"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <csignal>

namespace trine {
namespace {

constexpr std::array kWatched = {SIGTERM, SIGINT, SIGUSR1};
std::atomic<int> noted{0};
std::array<struct sigaction, kWatched.size()> previous;

void note(int number) {
  int none = 0;
  if (!noted.compare_exchange_strong(none, number) && number == SIGINT) {
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
}

}  // namespace

SignalWatch::SignalWatch() {
  noted = 0;
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  for (size_t i = 0; i < kWatched.size(); ++i) ::sigaction(kWatched[i], &action, &previous[i]);
}

SignalWatch::~SignalWatch() {
  for (size_t i = 0; i < kWatched.size(); ++i) ::sigaction(kWatched[i], &previous[i], nullptr);
}

int SignalWatch::received() const { return noted; }

std::string signal_name(int number) {
  switch (number) {
    case SIGTERM: return "SIGTERM";
    case SIGINT: return "SIGINT";
    case SIGUSR1: return "SIGUSR1";
    default: return fmt::format("signal {}", number);
  }
}

}  // namespace trine
