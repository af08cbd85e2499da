#pragma once

#include <optional>

#include "base/lock.h"
#include "fabric/counters.h"
#include "os/shared_memory.h"

namespace weft::host {

/// The page in which this process counts what it sends, by path; the daemon reads it. Counting
/// needs no lock, opening a counter needs this one.
struct PathCounters {
  os::Mapping memory;
  std::optional<fabric::CounterPage> page;  // set when the process attaches
  PolicyLock lock{LockPolicy::Spin};
};

}  // namespace weft::host
