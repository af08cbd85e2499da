#pragma once

// What the SA asks of the subnet manager, and what the manager tells it (IBTA vol 1 §15.1: the SA
// belongs to the master SM). Both live in one thread.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/identifiers.h"
#include "base/result.h"
#include "base/time.h"
#include "subnet/subnet.h"
#include "wire/encodings.h"
#include "wire/mad/notice.h"
#include "wire/mad/sm_info.h"

namespace weft::subnet {

/// One port that a route crosses, in order: out of the source, into a switch, out of it, ... into
/// the destination. A route from a port to itself, or between ports of one switch 0, has none.
struct RouteStep {
  PortId port{};
  bool is_egress{};
  friend constexpr bool operator==(const RouteStep&, const RouteStep&) = default;
};

/// What a PathRecord says of the way from one LID to another (IBTA vol 1 §15.2.5.16).
struct PathFacts {
  PortId source{};
  PortId destination{};
  ServiceLevel sl{};
  wire::Mtu mtu{wire::Mtu::Mtu4096};  ///< the least along the route
  std::uint8_t rate{};                ///< the least along the route, encoded as PathRecord Rate
  std::uint8_t packet_life_time{};    ///< an exponent, as TimeoutExponent
  std::vector<RouteStep> steps{};
};

/// How a port is in a multicast group.
enum class MulticastRole : std::uint8_t {
  Full,      ///< it sends and receives
  SendOnly,  ///< the tree takes what it sends and gives it nothing
};

struct MulticastMember {
  PortId port{};
  MulticastRole role{MulticastRole::Full};
};

class SubnetControl {
 public:
  SubnetControl() = default;
  virtual ~SubnetControl() = default;
  SubnetControl(const SubnetControl&) = delete;
  SubnetControl& operator=(const SubnetControl&) = delete;

  [[nodiscard]] virtual const Subnet& subnet() const = 0;
  /// Only a master's SA answers.
  [[nodiscard]] virtual wire::SmState state() const = 0;
  /// The port that the SM and the SA are at.
  [[nodiscard]] virtual PortId sm_port() const = 0;
  /// As SMInfo says it; SMInfoRecord.
  [[nodiscard]] virtual wire::SmInfo sm_info() const = 0;
  /// Other SMs of the subnet as they said last.
  struct OtherManager {
    PortId port{};
    wire::SmInfo info{};
  };
  [[nodiscard]] virtual std::span<const OtherManager> other_managers() const = 0;
  [[nodiscard]] virtual std::uint64_t sm_key() const = 0;
  [[nodiscard]] virtual std::uint64_t mkey() const = 0;

  /// The route as the forwarding tables have it; none when they do not lead there.
  [[nodiscard]] virtual std::optional<PathFacts> path(Lid source, Lid destination) const = 0;

  /// How many MLIDs every switch can forward, from 0xC000 on.
  [[nodiscard]] virtual std::uint32_t multicast_capacity() const = 0;
  /// The group's tree reaches exactly these from now on; none: it is gone. Ports that are away are
  /// remembered until they are named no more. The tables are written soon after.
  virtual Result<void> set_multicast_members(Lid mlid, std::span<const MulticastMember> members,
                                             Instant now) = 0;
  /// GUIDInfo of a port (GUIDInfoRecord Set, Delete); entry 0 stays.
  virtual Result<void> set_guids(PortId port, std::vector<Guid> guids, Instant now) = 0;
};

/// What happened to the subnet. PortIds are of the subnet after it.
class SubnetObserver {
 public:
  SubnetObserver() = default;
  virtual ~SubnetObserver() = default;
  SubnetObserver(const SubnetObserver&) = delete;
  SubnetObserver& operator=(const SubnetObserver&) = delete;

  /// The tables are written and ports are Active; NodeIds of before may be others now. `appeared`
  /// and `disappeared` are ports with LIDs (traps 64 and 65).
  struct Change {
    std::vector<Gid> appeared{};
    std::vector<Gid> disappeared{};
  };
  virtual void subnet_changed(const Change& change, Instant now) = 0;
  /// An SMA sent a trap, which the SM has repressed: subscribers may want it (§14.4.10).
  virtual void trap_received(const wire::Notice& notice, Instant now) = 0;
  /// The SM became master, or is none any more: clients have to register again with the next one.
  virtual void state_changed(wire::SmState state, Instant now) = 0;
};

}  // namespace weft::subnet
