// Signals that end a run in good order: SIGTERM, SIGINT and SIGUSR1 are noted, and the trainer saves and ends at the next step.
#pragma once

#include <string>

namespace trine {

// While one lives, the three signals are noted instead of ending the process. A second SIGINT ends it at once, for whoever is in a hurry.
class SignalWatch {
 public:
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;

  int received() const;  // the number of the first signal noted; 0: none
};

std::string signal_name(int number);

}  // namespace trine
