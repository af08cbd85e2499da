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

/// A multicast group to which a QP is attached, and the port that joined the group's tree for it.
struct Membership {
  Gid mgid;
  Lid mlid;
  fabric::PortIndex port;
};

/// The members of each multicast group, as processes, from the daemon; and the groups of this
/// process's own QPs. Any thread; it has its own lock.
class MulticastGroups {
 public:
  /// Policy: how long a joining QP waits until senders have been notified.
  static constexpr std::chrono::milliseconds kWaitLimit{500};

  using PortOfQp = std::function<std::optional<fabric::PortIndex>()>;

  explicit MulticastGroups(DaemonChannel& daemon, std::chrono::milliseconds wait_limit = kWaitLimit)
      : daemon_(daemon), patience_(wait_limit) {}

  /// Adds a membership to a QP's list. Nullopt if it exists already (R-RVT-21) or the QP has no
  /// port, else the number of the join, for wait_until_joined(). `port` returns the QP's port, and
  /// is called with the lock held.
  [[nodiscard]] std::optional<std::uint64_t> join(std::vector<Membership>& of_qp, const Gid& mgid,
                                                  Lid mlid, const PortOfQp& port);
  /// Removes a membership from a QP's list and notifies the daemon.
  void leave(std::vector<Membership>& of_qp, const Gid& mgid, Lid mlid);
  /// The QP may use another port: moves its memberships there.
  void move(std::vector<Membership>& of_qp, const PortOfQp& port);

  /// Returns when the daemon has notified all senders, which process its messages before they send:
  /// so a sender that learns of this member by other means reaches it.
  void wait_until_joined(std::uint64_t join);

  /// The processes in a group; a change advances generation().
  [[nodiscard]] std::vector<uabi::ProcessAddress> members(Lid mlid) const;
  /// Advances with every change of any group's members.
  [[nodiscard]] std::uint64_t generation() const {
    return generation_.load(std::memory_order_acquire);
  }

  // To be called on the control thread.
  void handle(const uabi::GroupMembers& group);
  /// The oldest outstanding join has been answered.
  void handle_joined();
  /// The daemon has ended: wakes all threads that wait for it.
  void handle_daemon_gone();

 private:
  [[nodiscard]] std::uint64_t request_join(const Membership& membership);

  DaemonChannel& daemon_;
  const std::chrono::milliseconds patience_;
  mutable std::mutex lock_;
  std::condition_variable joined_;
  std::map<Lid, std::vector<uabi::ProcessAddress>> groups_;
  std::atomic<std::uint64_t> generation_{0};  // advanced after each change of groups_
  std::uint64_t joins_asked_{};
  std::uint64_t joins_answered_{};  // answered in the order in which they were requested
};

}  // namespace weft::host
