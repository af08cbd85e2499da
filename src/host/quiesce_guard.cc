#include "host/quiesce_guard.h"

#include <atomic>

#include "host/process_impl.h"

namespace weft::host {

QuiesceGuard::QuiesceGuard(Process::Impl& process) : process_(process) {
  process_.joining_lock.lock();
  lane_count_ = process_.lane_count.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < lane_count_; ++i) {
    process_.lanes[i]->in(hca::Flow::Request).owner.lock();
    process_.lanes[i]->in(hca::Flow::Response).owner.lock();
  }
  process_.progress.upkeep_owner.lock();
}

QuiesceGuard::~QuiesceGuard() {
  process_.progress.upkeep_owner.unlock();
  for (std::size_t i = 0; i < lane_count_; ++i) {
    process_.lanes[i]->in(hca::Flow::Request).owner.unlock();
    process_.lanes[i]->in(hca::Flow::Response).owner.unlock();
  }
  process_.joining_lock.unlock();
}

}  // namespace weft::host
