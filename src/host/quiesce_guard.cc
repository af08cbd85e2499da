#include "host/quiesce_guard.h"

#include "host/process_impl.h"

namespace weft::host {

QuiesceGuard::QuiesceGuard(Process::Impl& process)
    : process_(process), lane_count_(process.lanes.hold_rings()) {
  process_.progress.maintenance_owner.lock();
}

QuiesceGuard::~QuiesceGuard() {
  process_.progress.maintenance_owner.unlock();
  process_.lanes.release_rings(lane_count_);
}

}  // namespace weft::host
