#pragma once

#include <string_view>

#include "base/time.h"
#include "hca/types.h"

namespace weft::hca {

class CompletionQueue;
class SharedReceiveQueue;
class Qp;

/// An asynchronous event (IBTA vol 1 §11.6.3). At most one of the objects is set; port events name
/// the port.
struct AsyncEvent {
  AsyncEventType type{};
  Qp* qp{};
  CompletionQueue* cq{};
  SharedReceiveQueue* srq{};
  PortNumber port;
};

/// What an HCA tells its driver. Called with the lock of the object concerned held: record it and
/// return; never call back.
class HcaEvents {
 public:
  virtual ~HcaEvents() = default;

  /// An armed CQ received a completion that it was armed for (the arm is used up).
  virtual void completion_event(CompletionQueue& cq) = 0;

  /// An armed CQ holds its event back for more completions: CompletionQueue::end_period() is due
  /// after that time. Later calls replace it. For drivers that moderate CQs.
  virtual void completion_event_held(CompletionQueue& /*cq*/, Duration /*period*/) {}

  virtual void async_event(const AsyncEvent& event) = 0;

  /// Whether reasons of error completions are wanted (WEFT_EXPLAIN=1); asked before any text is
  /// made.
  [[nodiscard]] virtual bool wants_explanations() const = 0;
  virtual void explain(std::string_view reason) = 0;
};

}  // namespace weft::hca
