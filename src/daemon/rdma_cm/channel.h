#pragma once

// An event channel of a program (uabi/rdma_cm_messages.h): the events that wait for it, and the
// octet in its socket that says so. The daemon's thread.

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

class RdmaCmChannel final : public cm::RdmaCmSink {
 public:
  /// Connection requests that wait; policy: as many as a listener's backlog (cm::Limits).
  static constexpr std::size_t kMostRequests = 16'384;
  /// Events of which a program can cause any number: what it writes itself, and resolved services.
  /// Policy. All others are bounded by the number of ids.
  static constexpr std::size_t kMostWritten = 16'384;

  struct Owner {
    std::uint32_t number{};  ///< of the channel
    pid_t pid{};
    fabric::NodeIndex host;
    std::optional<IpAddress> loopback_means{};
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

  // --- ids, and how many events of each the program was told
  void add(cm::RdmaCmId id, std::uint32_t told = 0);
  [[nodiscard]] bool has(cm::RdmaCmId id) const { return known_.contains(id); }
  [[nodiscard]] std::vector<cm::RdmaCmId> ids() const;

  /// What is left of an id, which then is not here any more.
  struct Remains {
    std::uint32_t told{};
    std::vector<cm::RdmaCmEvent> events{};  ///< that wait, its connection requests among them
  };
  [[nodiscard]] Remains remove(cm::RdmaCmId id);
  /// Events that waited elsewhere.
  void append(const std::vector<cm::RdmaCmEvent>& events);

  /// How many events of the id's membership the program was told; those that wait are forgotten.
  [[nodiscard]] std::uint32_t forget(cm::RdmaCmId id, cm::GroupId group);

 private:
  /// An id, and where its events are that wait: to look through all of them would cost a program
  /// that destroys thousands of ids, and everybody else, their square.
  struct Known {
    std::uint32_t told{};
    std::list<std::uint64_t> waiting{};
  };

  void put(const cm::RdmaCmEvent& event);
  /// Takes the event out that came as that one.
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
  std::map<cm::GroupId, std::uint32_t> told_of_groups_;
  bool is_shown_{};
};

}  // namespace weft::daemon
