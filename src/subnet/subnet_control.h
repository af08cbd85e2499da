#pragma once

// The interfaces between SA and subnet manager (IBTA vol 1 §15.1: SA belongs to the master SM).
// Both run on the same thread.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/identifiers.h"
#include "base/result.h"
#include "base/time.h"
#include "subnet/subnet.h"
#include "verbs/mtu.h"
#include "wire/mad/notice.h"
#include "wire/mad/sm_info.h"

namespace weft::subnet {

/// A port crossed by a route, in order: egress of the source, ingress and egress of each switch,
/// ingress of the destination. The route from a port to itself has no steps.
struct RouteStep {
  PortId port{};
  bool is_egress{};
  friend constexpr bool operator==(const RouteStep&, const RouteStep&) = default;
};

/// Properties of the path between two LIDs, as needed for a PathRecord (IBTA vol 1 §15.2.5.16).
struct PathFacts {
  PortId source{};
  PortId destination{};
  ServiceLevel sl{};
  verbs::Mtu mtu{verbs::Mtu::Mtu4096};  ///< smallest along the route
  std::uint8_t rate{};                  ///< lowest along the route, in PathRecord encoding
  std::uint8_t packet_life_time{};      ///< exponent, as TimeoutExponent
  std::vector<RouteStep> steps{};
};

/// Kind of a port's membership in a multicast tree.
enum class MulticastRole : std::uint8_t {
  Full,      ///< sends and receives
  SendOnly,  ///< its packets are forwarded, but it receives none
};

/// One member of a multicast tree.
struct MulticastMember {
  PortId port{};
  MulticastRole role{MulticastRole::Full};
};

/// What SA needs from the subnet manager.
class SubnetControl {
 public:
  SubnetControl() = default;
  virtual ~SubnetControl() = default;
  SubnetControl(const SubnetControl&) = delete;
  SubnetControl& operator=(const SubnetControl&) = delete;

  [[nodiscard]] virtual const Subnet& subnet() const = 0;
  /// SA answers only in state Master.
  [[nodiscard]] virtual wire::SmState state() const = 0;
  /// The port of SM and SA.
  [[nodiscard]] virtual PortId sm_port() const = 0;
  /// Current SMInfo, for SMInfoRecord.
  [[nodiscard]] virtual wire::SmInfo sm_info() const = 0;
  /// Another SM of the subnet, with its last SMInfo.
  struct OtherManager {
    PortId port{};
    wire::SmInfo info{};
  };
  [[nodiscard]] virtual std::span<const OtherManager> other_managers() const = 0;
  [[nodiscard]] virtual std::uint64_t sm_key() const = 0;
  [[nodiscard]] virtual std::uint64_t mkey() const = 0;

  /// The route given by the forwarding tables; none if they do not reach the destination.
  [[nodiscard]] virtual std::optional<PathFacts> path(Lid source, Lid destination) const = 0;

  /// The number of MLIDs, from 0xC000 on, that all switches can forward.
  [[nodiscard]] virtual std::uint32_t multicast_capacity() const = 0;
  /// Sets the members of the group's tree; none deletes the tree. Absent ports stay members until a
  /// later call omits them. Switch tables are written soon after.
  virtual Result<void> set_multicast_members(Lid mlid, std::span<const MulticastMember> members,
                                             Instant now) = 0;
  /// Sets the GUIDInfo of a port (GUIDInfoRecord Set, Delete); entry 0 is kept.
  virtual Result<void> set_guids(PortId port, std::vector<Guid> guids, Instant now) = 0;
  /// What a port's GUIDInfo is to be: as set_guids() said last, though it may not be written yet.
  [[nodiscard]] virtual std::vector<Guid> guids_of(PortId port) const = 0;
};

/// Receives the subnet manager's events. PortIds refer to the subnet after the event.
class SubnetObserver {
 public:
  SubnetObserver() = default;
  virtual ~SubnetObserver() = default;
  SubnetObserver(const SubnetObserver&) = delete;
  SubnetObserver& operator=(const SubnetObserver&) = delete;

  /// A sweep completed: tables are written and ports are Active. Earlier NodeIds are invalid.
  /// `appeared` and `disappeared` list ports with LIDs (traps 64 and 65).
  struct Change {
    std::vector<Gid> appeared{};
    std::vector<Gid> disappeared{};
  };
  virtual void subnet_changed(const Change& change, Instant now) = 0;
  /// A trap arrived and was repressed; SA forwards it to subscribers (§14.4.10).
  virtual void trap_received(const wire::Notice& notice, Instant now) = 0;
  /// The SM became master or stopped being master; clients must reregister with the next one.
  virtual void state_changed(wire::SmState state, Instant now) = 0;
};

}  // namespace weft::subnet
