#pragma once

// The waiting loop of streams, included only by the sources of Stream.

#include <cerrno>

#include "compat/rdmacm/rsockets/stream.h"
#include "os/clock.h"

namespace weft::rsockets {

template <class Condition>
int Stream::wait(Lock& lock, bool waits, Condition condition) {
  Instant spin_until{};
  while (true) {
    take_completions();
    grant();
    if (condition()) {
      return 0;
    }
    if (!waits) {
      errno = EAGAIN;
      return -1;
    }
    if (spin_until == Instant{}) {
      spin_until = os::now() + kSpin;
    }
    if (os::now() < spin_until) {
      continue;
    }
    if (const int error = ibv_req_notify_cq(cm_->recv_cq, 0)) {
      fail_with(error);
    }
    take_completions();  // completions that preceded the request
    if (!condition()) {
      wait_for_completions(lock);
    }
  }
}

}  // namespace weft::rsockets
