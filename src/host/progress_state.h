#pragma once

#include <atomic>

#include "base/lock.h"
#include "os/futex.h"
#include "ring/sleeper.h"

namespace weft::host {

using ProcessSleeper = ring::Sleeper<os::KernelFutex>;

/// What the threads of a process agree on: who looks at its rings, who serves its wait queues and
/// timers, and whether there is a CPU to spin on (docs/ARCHITECTURE.md, decision 4). Each member
/// has cache lines of its own, since different threads write them.
struct ProgressState {
  ProcessSleeper sleeper;
  /// Held while wait queues are served and timers handled: one thread at a time.
  alignas(64) PolicyLock maintenance_owner{LockPolicy::Spin};
  /// The threads of programs outnumber the CPUs.
  alignas(64) std::atomic<bool> shares_cpus{false};
};

}  // namespace weft::host
