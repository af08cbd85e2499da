#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "base/identifiers.h"
#include "fabric/tables.h"
#include "host/foreign/daemon_channel.h"
#include "uabi/messages.h"

namespace weft::host {

/// A multicast group that a QP is attached to, and the port that joined the group's tree for it.
struct Membership {
  Gid mgid;
  Lid mlid;
  fabric::PortIndex port;
};

/// Which processes of the fabric are in which multicast group, as the daemon says, and the groups
/// that this process's own QPs are in. Owns its lock; any thread.
class MulticastGroups {
 public:
  /// How long a QP that joins waits until those who send have been told; policy.
  static constexpr std::chrono::milliseconds kWaitLimit{500};

  using PortOfQp = std::function<std::optional<fabric::PortIndex>()>;

  explicit MulticastGroups(DaemonChannel& daemon, std::chrono::milliseconds wait_limit = kWaitLimit)
      : daemon_(daemon), patience_(wait_limit) {}

  /// A QP that has these memberships is in one more from now on; nothing if it was already
  /// (R-RVT-21), else the number of the join, for wait_until_joined().
  /// `port` is asked for the port by which the QP takes part, with the lock; without one, nothing
  /// happens either.
  [[nodiscard]] std::optional<std::uint64_t> join(std::vector<Membership>& of_qp, const Gid& mgid,
                                                  Lid mlid, const PortOfQp& port);
  void leave(std::vector<Membership>& of_qp, const Gid& mgid, Lid mlid);
  /// The QP may have another port: it takes part by that from now on.
  void move(std::vector<Membership>& of_qp, const PortOfQp& port);

  /// By then the daemon has told those who send, and they look for its news before they send:
  /// whoever hears of us by other ways reaches us.
  void wait_until_joined(std::uint64_t join);

  /// The processes in a group; changes with generation().
  [[nodiscard]] std::vector<uabi::ProcessAddress> members(Lid mlid) const;
  [[nodiscard]] std::uint64_t generation() const {
    return generation_.load(std::memory_order_acquire);
  }

  // On the control thread.
  void handle(const uabi::GroupMembers& group);
  void handle_joined();
  /// The daemon has ended: who waits for it waits no longer.
  void handle_daemon_gone();

 private:
  [[nodiscard]] std::uint64_t request_join(const Membership& membership);

  DaemonChannel& daemon_;
  const std::chrono::milliseconds patience_;
  mutable std::mutex lock_;
  std::condition_variable joined_;
  std::map<Lid, std::vector<uabi::ProcessAddress>> groups_;
  std::atomic<std::uint64_t> generation_{0};  // changes with them, after them
  std::uint64_t joins_asked_{};
  std::uint64_t joins_answered_{};  // in the order in which they were asked
};

}  // namespace weft::host
