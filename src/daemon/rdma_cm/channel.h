#pragma once

// An RDMA-CM event channel of a program (uabi/rdma_cm_messages.h): the queue of its events, and the
// octet in its socket that signals them. Used on the daemon's thread only.

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/ip_address.h"
#include "cm/rdma/types.h"
#include "fabric/tables.h"
#include "os/unique_fd.h"

namespace weft::daemon {

/// Queues events for a program until it fetches them.
class RdmaCmChannel final : public cm::RdmaCmSink {
 public:
  /// Connection requests that wait; policy: as many as a listener's backlog (cm::Limits).
  static constexpr std::size_t kMaxRequests = 16'384;
  /// Events of which a program can cause any number: what it writes itself, and resolved services.
  /// Policy. All others are bounded by the number of ids.
  static constexpr std::size_t kMostWritten = 16'384;

  struct Owner {
    std::uint32_t number{};  ///< channel number
    pid_t pid{};
    fabric::NodeIndex host;
    std::optional<IpAddress> loopback_target{};
  };

  /// `ours` and `theirs` are the two ends of a socket; the program has `theirs` as well.
  RdmaCmChannel(const Owner& owner, os::UniqueFd ours, std::shared_ptr<const os::UniqueFd> theirs);

  [[nodiscard]] const Owner& owner() const { return owner_; }

  /// False: too many of that kind wait.
  [[nodiscard]] bool take(const cm::RdmaCmEvent& event) override;
  /// All events of both channels may wait here.
  [[nodiscard]] bool has_room_for(const RdmaCmChannel& other) const {
    return written_ + other.written_ <= kMostWritten;
  }
  /// The oldest event, which then counts as told; none: none waits.
  [[nodiscard]] std::optional<cm::RdmaCmEvent> next();

  // --- ids, and the number of events reported for each
  void add(cm::RdmaCmId id, std::uint32_t reported = 0);
  [[nodiscard]] bool has(cm::RdmaCmId id) const { return known_.contains(id); }
  [[nodiscard]] std::vector<cm::RdmaCmId> ids() const;

  /// What remains of an id when it is removed from the channel.
  struct RemovedId {
    std::uint32_t reported{};
    std::vector<cm::RdmaCmEvent> events{};  ///< still queued, connection requests included
  };
  [[nodiscard]] RemovedId remove(cm::RdmaCmId id);
  /// Queues events moved from another channel.
  void append(const std::vector<cm::RdmaCmEvent>& events);

  /// Drops the membership's queued events. Returns how many were reported before.
  [[nodiscard]] std::uint32_t forget(cm::RdmaCmId id, cm::GroupId group);

 private:
  /// An id with the positions of its queued events. Searching the whole queue instead would make
  /// the destruction of thousands of ids quadratic.
  struct Known {
    std::uint32_t reported{};
    std::list<std::uint64_t> waiting{};
  };

  void put(const cm::RdmaCmEvent& event);
  /// Removes an event by its number.
  [[nodiscard]] cm::RdmaCmEvent extract(std::uint64_t number);
  void show();

  Owner owner_;
  os::UniqueFd ours_;
  std::shared_ptr<const os::UniqueFd> theirs_;
  std::map<std::uint64_t, cm::RdmaCmEvent> events_;  ///< by the number as which they came
  std::uint64_t last_event_{};
  std::size_t requests_{};
  std::size_t written_{};
  std::map<cm::RdmaCmId, Known> known_;
  std::map<cm::GroupId, std::uint32_t> reported_of_groups_;
  bool is_signaled_{};
};

}  // namespace weft::daemon
