#pragma once

// Configuration of a subnet manager. All numbers are policy, not from the specification; most are
// OpenSM's defaults.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/identifiers.h"
#include "base/keys.h"
#include "base/time.h"
#include "subnet/routing/routing.h"
#include "verbs/mtu.h"

namespace weft::subnet {

/// A partition (IBTA vol 1 §10.9): memberships by port GUID, and one for all other ports.
struct Partition {
  enum class Membership : std::uint8_t { None, Limited, Full };
  PKey pkey{kDefaultPKey};  // the low 15 bits identify the partition
  Membership default_membership{Membership::None};
  std::map<Guid, Membership> members{};
};

/// Configuration of a subnet manager, fixed at construction.
struct SubnetManagerOptions {
  std::uint8_t priority{0};  // 0 to 15; the highest becomes master, then the lowest GUID
  std::uint64_t sm_key{1};   // OpenSM's default, so that both accept each other's handover
  std::uint64_t mkey{};
  std::uint16_t mkey_lease_period{};  // seconds; 0: infinite
  std::uint8_t mkey_protect_bits{1};  // used if `mkey` is set
  std::uint64_t subnet_prefix{kDefaultGidPrefix};
  Lid first_lid{1};                            // lowest LID to assign
  std::uint8_t lmc{};                          // of HCA ports
  std::map<Guid, std::uint8_t> lmc_of_port{};  // overrides `lmc`, by port GUID
  // in order of preference
  std::vector<RoutingEngine> engines{RoutingEngine::FatTree, RoutingEngine::MinHop};
  std::uint8_t vl_limit{8};  // data VLs available to routing engines
  verbs::Mtu largest_mtu{verbs::Mtu::Mtu4096};
  std::uint8_t subnet_timeout{18};    // PortInfo SubnetTimeOut: about a second
  std::uint8_t packet_life_time{18};  // of paths and of switch queues
  /// None: P_Key tables are left unchanged.
  std::optional<std::vector<Partition>> partitions{};

  std::size_t smps_in_flight{128};
  Duration smp_timeout{Duration::milliseconds(200)};
  /// Chosen for links that each lose 10 % of packets: an SMP that crosses eight such links, both
  /// directions together, succeeds four times out of ten. It costs nothing for removed nodes: ports
  /// that are down are not queried.
  unsigned smp_retries{12};
  Duration sweep_interval{Duration::seconds(10)};  // interval of light sweeps
  /// A trap about a link change aborts the sweep in progress, whose findings are outdated, and
  /// restarts it without the usual pause. Limited to this many restarts at once, then to one per
  /// interval, so that a stream of traps cannot prevent sweeps from completing.
  std::uint32_t prompt_sweeps{8};
  Duration prompt_sweep_interval{Duration::seconds(2)};
  /// After such a trap, how long to wait for SMPs in flight: nodes that are alive answer within it.
  Duration grace_after_trap{Duration::milliseconds(20)};
  Duration retry_interval{Duration::seconds(1)};    // after a sweep with failures
  unsigned retries_of_sweep{5};                     // consecutive retries
  Duration polling_interval{Duration::seconds(2)};  // of the master by a standby SM
  unsigned polling_retries{4};                      // then the master is considered dead
  Duration handover_timeout{Duration::seconds(1)};  // for the ACKNOWLEDGE
};

}  // namespace weft::subnet
