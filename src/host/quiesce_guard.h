#pragma once

#include <cstddef>

#include "host/process.h"

namespace weft::host {

/// While this exists, nobody takes from a ring, serves a wait queue or a timer, or opens a lane.
class QuiesceGuard {
 public:
  explicit QuiesceGuard(Process::Impl& process);
  ~QuiesceGuard();
  QuiesceGuard(const QuiesceGuard&) = delete;
  QuiesceGuard& operator=(const QuiesceGuard&) = delete;

 private:
  Process::Impl& process_;
  std::size_t lane_count_;
};

}  // namespace weft::host
