#pragma once

// The multicast groups of an interface (RFC 4391 §4, §10): which it has joined, and packets that
// wait until it has. Groups other than the broadcast group take that one's parameters. Pure, not
// thread-safe.

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/flags.h"
#include "base/identifiers.h"
#include "base/ip_address.h"
#include "base/keys.h"
#include "base/time.h"
#include "wire/mad/mc_member_record.h"

namespace weft::ipoib {

using Packet = std::vector<std::byte>;

enum class GroupState : std::uint8_t {
  Waiting,  ///< for the broadcast group
  Joining,
  Joined,
  Retry,  ///< SA refused
};
inline constexpr unsigned kGroupStates = 4;

enum class GroupEvent : std::uint8_t {
  LinkUp,  ///< the broadcast group is joined
  LinkDown,
  Answered,
  Refused,
  Due,      ///< time to try again
  Changed,  ///< another kind of membership is wanted
};

struct GroupRow {
  GroupState state;
  GroupEvent event;
  GroupState next;
};
/// What does not stand here changes nothing. Entering Joining sends the join.
inline constexpr auto kGroupRows = std::to_array<GroupRow>({
    {GroupState::Waiting, GroupEvent::LinkUp,   GroupState::Joining},
    {GroupState::Joining, GroupEvent::LinkDown, GroupState::Waiting},
    {GroupState::Joining, GroupEvent::Answered, GroupState::Joined },
    {GroupState::Joining, GroupEvent::Refused,  GroupState::Retry  },
    {GroupState::Joining, GroupEvent::Changed,  GroupState::Joining},
    {GroupState::Joined,  GroupEvent::LinkDown, GroupState::Waiting},
    {GroupState::Joined,  GroupEvent::Changed,  GroupState::Joining},
    {GroupState::Joined,  GroupEvent::Answered, GroupState::Joined },
    {GroupState::Joined,  GroupEvent::Refused,  GroupState::Retry  },
    {GroupState::Retry,   GroupEvent::LinkDown, GroupState::Waiting},
    {GroupState::Retry,   GroupEvent::Due,      GroupState::Joining},
    {GroupState::Retry,   GroupEvent::Changed,  GroupState::Joining},
});
[[nodiscard]] std::optional<GroupState> next_state(GroupState state, GroupEvent event);

/// Policy, not from the specification.
struct GroupLimits {
  std::size_t groups{1024};
  std::size_t packets_of_group{16};
  Duration retry{Duration::seconds(1)};  ///< doubled up to
  Duration max_retry{Duration::seconds(16)};
  Duration send_only{Duration::seconds(120)};  ///< a group that is no longer sent to is left
};

struct GroupCounters {
  std::uint64_t joins{};
  std::uint64_t leaves{};
  std::uint64_t refused{};
  std::uint64_t dropped{};  ///< packets that waited too many or too long
};

/// A join to send to SA: MGID, join state, and, where the group may have to be made, what it is to
/// be like.
struct GroupJoin {
  wire::McMemberRecord record{};
  std::uint64_t mask{};
};

/// What the table wants done, in order.
struct GroupAction {
  enum class Kind : std::uint8_t { Join, Leave, Send };
  Kind kind{};
  Gid mgid{};
  GroupJoin join{};               ///< Join
  Flags<wire::JoinState> left{};  ///< Leave
  wire::McMemberRecord group{};   ///< Send: where to
  Packet packet{};                ///< Send
};

class GroupTable {
 public:
  /// `send_only`: the join state for groups that are only sent to; SendOnlyFullMember where SA
  /// knows it, as it makes the group if there is none.
  explicit GroupTable(const GroupLimits& limits = {},
                      wire::JoinState send_only = wire::JoinState::SendOnlyFullMember)
      : limits_(limits), send_only_(send_only) {}

  /// The broadcast group was joined, or joined anew with other parameters.
  void link_up(const wire::McMemberRecord& broadcast, Instant now);
  void link_down();

  /// The host listens to the group, or does no longer. Returns false if there are too many.
  bool set_listening(const IpAddress& group, bool is_member, Instant now);
  /// The same groups as another interface of the host, and no others.
  void listen_as(const GroupTable& other, Instant now);
  /// Sends to the group when it is joined, which begins now if need be.
  void send(const IpAddress& group, Packet packet, Instant now);

  /// SA's answers to joins, and to those that SA's client repeats by itself where SA has lost its
  /// memberships (client reregistration, another SM): the group may have another MLID then.
  void joined(const wire::McMemberRecord& record, Instant now);
  void refused(const Gid& mgid, Instant now);

  void handle_timeout(Instant now);
  [[nodiscard]] Instant deadline() const;
  [[nodiscard]] std::optional<GroupAction> poll_action();

  /// Packets for this group are for the host.
  [[nodiscard]] bool is_listening(const Gid& mgid) const;
  [[nodiscard]] std::optional<GroupState> state_of(const Gid& mgid) const;
  /// What SA should have, for those that are joined.
  [[nodiscard]] std::map<Gid, Flags<wire::JoinState>> memberships() const;
  [[nodiscard]] std::size_t size() const { return groups_.size(); }
  [[nodiscard]] const GroupCounters& counters() const { return counters_; }

 private:
  struct Group {
    GroupState state{GroupState::Waiting};
    bool is_listening{};
    Flags<wire::JoinState> asked{};  // of the last join
    wire::McMemberRecord record{};
    std::deque<Packet> packets;
    Instant due{Instant::never()};
    Instant last_sent{};
    Duration backoff{};
  };

  [[nodiscard]] Gid mgid_of(const IpAddress& group) const;
  [[nodiscard]] Group* find_or_make(const Gid& mgid);
  [[nodiscard]] Flags<wire::JoinState> wanted(const Group& group) const;
  void step(const Gid& mgid, Group& group, GroupEvent event, Instant now);
  void begin(const Gid& mgid, Group& group, Instant now);
  void send_join(const Gid& mgid, Group& group);
  void flush(const Gid& mgid, Group& group);
  void leave(std::map<Gid, Group>::iterator group);

  GroupLimits limits_;
  wire::JoinState send_only_;
  std::optional<wire::McMemberRecord> broadcast_;
  bool is_up_{};
  std::map<Gid, Group> groups_;
  std::set<IpAddress> listened_;     // by the host
  std::map<IpAddress, bool> early_;  // listened to before the partition's scope was known
  std::deque<GroupAction> actions_;
  GroupCounters counters_;
};

}  // namespace weft::ipoib
