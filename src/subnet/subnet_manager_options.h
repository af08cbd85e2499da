#pragma once

// What a subnet manager is told. All numbers are policy, most as OpenSM has them.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/identifiers.h"
#include "base/keys.h"
#include "base/time.h"
#include "subnet/routing/routing.h"
#include "wire/encodings.h"

namespace weft::subnet {

/// Who may talk to whom (IBTA vol 1 §10.9). Full members by port GUID; everybody else is one when
/// `default_membership` says so.
struct Partition {
  enum class Membership : std::uint8_t { None, Limited, Full };
  PKey pkey{kDefaultPKey};  // its low 15 bits name the partition
  Membership default_membership{Membership::None};
  std::map<Guid, Membership> members{};
};

struct SubnetManagerOptions {
  std::uint8_t priority{0};  // 0 to 15: the highest is master; then the lowest GUID
  std::uint64_t sm_key{1};   // OpenSM's, so that they take each other's handover
  std::uint64_t mkey{};
  std::uint16_t mkey_lease_period{};  // seconds; 0: for ever
  std::uint8_t mkey_protect_bits{1};  // when there is an M_Key
  std::uint64_t subnet_prefix{kDefaultGidPrefix};
  Lid first_lid{1};                            // ports that have none yet get it, or one above
  std::uint8_t lmc{};                          // of HCA ports
  std::map<Guid, std::uint8_t> lmc_of_port{};  // of those that want another
  std::vector<RoutingEngine> engines{RoutingEngine::FatTree, RoutingEngine::MinHop};  // by choice
  std::uint8_t vl_limit{8};  // data VLs that engines may use
  wire::Mtu largest_mtu{wire::Mtu::Mtu4096};
  std::uint8_t subnet_timeout{18};    // PortInfo SubnetTimeOut: about a second
  std::uint8_t packet_life_time{18};  // of paths and of switches' queues
  /// None: P_Key tables stay as ports have them.
  std::optional<std::vector<Partition>> partitions{};

  std::size_t smps_in_flight{128};
  Duration smp_timeout{Duration::milliseconds(200)};
  /// Enough for links that each lose a tenth: of eight crossed both ways together, four of ten SMPs
  /// come back. What is gone costs none: a port that is down is not asked.
  unsigned smp_retries{12};
  Duration sweep_interval{Duration::seconds(10)};  // of light sweeps
  /// A trap that a link changed ends the sweep under way, for what that one finds is no longer so;
  /// and it does not wait for the others' half of the time. That often at once, then one an
  /// interval, so that whoever sends many traps keeps no sweep from its end.
  std::uint32_t prompt_sweeps{8};
  Duration prompt_sweep_interval{Duration::seconds(2)};
  /// So long after such a trap what is under way is waited for: who is there answers meanwhile.
  Duration patience_after_trap{Duration::milliseconds(20)};
  Duration retry_interval{Duration::seconds(1)};    // after a sweep that missed something
  unsigned retries_of_sweep{5};                     // in a row
  Duration polling_interval{Duration::seconds(2)};  // of the master, by a standby
  unsigned polling_retries{4};                      // then it is dead
  Duration handover_timeout{Duration::seconds(1)};  // for the acknowledgement
};

}  // namespace weft::subnet
