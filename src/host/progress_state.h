#pragma once

#include <atomic>

#include "base/lock.h"
#include "os/futex.h"
#include "ring/sleeper.h"

namespace weft::host {

/// Who looks at the rings of a process, who keeps up its wait queues and timers, and whether it has
/// a CPU to spin on (docs/ARCHITECTURE.md, decision 4). Each member lies on lines of its own, since
/// different threads write them.
struct ProgressState {
  ring::Sleeper<os::KernelFutex> sleeper;
  alignas(64) PolicyLock maintenance_owner{LockPolicy::Spin};  // of wait queues and timers
  alignas(64) std::atomic<bool> shares_cpus{false};  // programs and their threads outnumber them
};

}  // namespace weft::host
