#include "core/call_queue.h"

#include <mutex>
#include <utility>

namespace weft::core {

void CallQueue::add(std::function<void()> call) {
  {
    const std::lock_guard lock{lock_};
    calls_.push_back(std::move(call));
  }
  work_.queue();
}

void CallQueue::cancel_and_wait() {
  work_.cancel_and_wait();
  std::vector<std::function<void()>> dropped;
  {
    const std::lock_guard lock{lock_};
    dropped.swap(calls_);
  }  // freed without the lock: what they hold may end other consumers
}

void CallQueue::run() {
  for (;;) {
    std::vector<std::function<void()>> calls;
    {
      const std::lock_guard lock{lock_};
      calls.swap(calls_);
    }
    if (calls.empty()) {
      return;
    }
    for (const auto& call : calls) {
      call();
    }
  }
}

}  // namespace weft::core
