#pragma once

// Deferral of completion events until the acknowledgement of the packet that caused them is sent.

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "hca/completion_queue.h"
#include "host/process.h"

namespace weft::host {

/// Defers completion events raised on this thread, for as long as it exists. A program that sleeps
/// until its message arrives could otherwise answer before the thread that received the message has
/// sent the ACK, and its answer, on another lane, would overtake the ACK. An adapter sends the ACK
/// before any program can know of the message, and programs rely on it: perftest waits for one
/// event after a SEND and takes it for the SEND's completion, even if it is that of the answer.
///
/// Caller must own a ring, so that no CQ with QPs or SRQs is destroyed meanwhile (QuiesceGuard).
class DeferredEvents {
 public:
  /// If not `defers`, this object has no effect.
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

  /// Events raised from now on are not deferred; those raised before still are.
  void stop() {
    if (std::exchange(defers_, false)) {
      current_ = outer_;
    }
  }
  [[nodiscard]] bool has_any() const { return count_ != 0; }

  /// Defers an event; delivers it at once if nothing defers or there is no room.
  static void tell(ProcessEvents& events, std::uint32_t hca, hca::CompletionQueue& cq) {
    if (current_ != nullptr && current_->count_ < current_->deferred_.size()) {
      current_->deferred_[current_->count_++] = {.events = &events, .hca = hca, .cq = &cq};
    } else {
      events.completion_event(hca, cq);
    }
  }

 private:
  struct Deferred {  // no initialisers: this is on the path of each message
    ProcessEvents* events;
    std::uint32_t hca;
    hca::CompletionQueue* cq;
  };

  static inline thread_local constinit DeferredEvents* current_ = nullptr;
  bool defers_;
  DeferredEvents* outer_{};
  std::size_t count_{};
  std::array<Deferred, 32>
      deferred_;  // policy: a CQ has one event, or more if it is armed meanwhile
};

}  // namespace weft::host
