#pragma once

// Who holds what on a host: asks the programs of the host that have a device open, and waits for
// their answers, but not for long: a program that is stopped must not stop who looks at it.

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "base/time.h"
#include "node/fabric.h"
#include "uabi/held_object_messages.h"

namespace weft::daemon {

/// Questions under way. Used on the daemon's thread only.
class ObjectCensus {
 public:
  /// Policy.
  static constexpr Duration kWaitLimit = Duration::milliseconds(1'000);
  /// Messages of one program in one answer: more than its objects can fill.
  static constexpr std::size_t kMaxParts = 1'024;

  /// What each program said; one that did not answer in time has said nothing, or not all.
  using Answers = std::map<node::ProcessId, std::vector<uabi::ObjectsHeld>>;

  explicit ObjectCensus(asio::io_context& loop) : loop_(loop) {}

  /// Calls `ask(process, ListObjects)` for each, and `done` once: at once if there are none.
  void take(const std::vector<node::ProcessId>& programs,
            const std::function<void(node::ProcessId, const uabi::ListObjects&)>& ask,
            std::function<void(const Answers&)> done);

  /// False: the program was not asked, or says more than it can have.
  [[nodiscard]] bool take_answer(node::ProcessId from, uabi::ObjectsHeld part);
  /// The program is gone: nobody waits for it.
  void forget(node::ProcessId program);

 private:
  struct Question {
    std::set<node::ProcessId> awaited;
    Answers answers;
    std::unique_ptr<asio::steady_timer> timer;
    std::function<void(const Answers&)> done;
  };
  using Questions = std::map<std::uint32_t, Question>;
  void finish(Questions::iterator question);

  asio::io_context& loop_;
  Questions questions_;
  std::uint32_t last_{};
};

}  // namespace weft::daemon
