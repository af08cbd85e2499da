#pragma once

// Completion events between the packet that causes them and the program that waits for them.

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "hca/completion_queue.h"
#include "host/process.h"

namespace weft::host {

/// While this exists, completion events of this thread wait. A program that sleeps until its
/// message has come may answer before the thread that took the message has sent its ACK, and the
/// answer, by another lane, would overtake it. An adapter's ACK is under way before any program can
/// know of the message, and programs rely on it: perftest waits for one event after a SEND and
/// takes it for that of the SEND, also when it is that of the answer.
///
/// For the owner of a ring: no CQ that has QPs or SRQs is destroyed meanwhile (QuiesceGuard).
class DeferredEvents {
 public:
  /// Without `defers` nothing waits for its sake.
  explicit DeferredEvents(bool defers) : defers_(defers) {
    if (defers) {
      outer_ = std::exchange(current_, this);
    }
  }
  ~DeferredEvents() {
    stop();
    for (std::size_t i = 0; i < count_; ++i) {
      deferred_[i].events->completion_event(deferred_[i].hca, *deferred_[i].cq);
    }
  }
  DeferredEvents(const DeferredEvents&) = delete;
  DeferredEvents& operator=(const DeferredEvents&) = delete;

  /// What comes now does not wait any more; what has come still does.
  void stop() {
    if (std::exchange(defers_, false)) {
      current_ = outer_;
    }
  }
  [[nodiscard]] bool has_any() const { return count_ != 0; }

  /// Holds an event back, or tells it at once if nothing holds it or there is no room for it.
  static void tell(ProcessEvents& events, std::uint32_t hca, hca::CompletionQueue& cq) {
    if (current_ != nullptr && current_->count_ < current_->deferred_.size()) {
      current_->deferred_[current_->count_++] = {.events = &events, .hca = hca, .cq = &cq};
    } else {
      events.completion_event(hca, cq);
    }
  }

 private:
  struct Deferred {  // without initial values: this stands on the way of each message
    ProcessEvents* events;
    std::uint32_t hca;
    hca::CompletionQueue* cq;
  };

  static inline thread_local constinit DeferredEvents* current_ = nullptr;
  bool defers_;
  DeferredEvents* outer_{};
  std::size_t count_{};
  std::array<Deferred, 32> deferred_;  // policy: a CQ has one, or more if it is armed meanwhile
};

}  // namespace weft::host
