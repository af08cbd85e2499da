#pragma once

#include <deque>

#include "base/intrusive_list.h"
#include "base/lock.h"
#include "core/events.h"
#include "core/work.h"

namespace weft::core {

/// The events of one device on their way to its handlers, in the order of their coming. Any thread.
class EventQueue {
 public:
  explicit EventQueue(Device& device);
  ~EventQueue();

  void add(const Event& event);
  /// Waits until all that were added have been handled.
  void flush() { work_.flush(); }

  void enter(EventHandler& handler);
  void leave(EventHandler& handler);
  [[nodiscard]] bool has_handlers() { return !handlers_.empty(); }

 private:
  void run();

  Device& device_;
  PolicyLock lock_;  // of events_
  std::deque<Event> events_;
  SleepLock handlers_lock_;  // held while handlers run, which makes leave() a fence
  IntrusiveList<EventHandler, EventHandlerTag> handlers_;
  Work work_;
};

}  // namespace weft::core
