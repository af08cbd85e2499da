#pragma once

// How hosts with virtual NICs find each other on an InfiniBand fabric: a ServiceRecord at SA (IBTA
// vol 1 §15.2.5.14) says that a port has "Ethernet on fabric", and by which QPs; a multicast group
// for each virtual switch carries what is flooded. All numbers are ours. Pure.

#include <cstdint>
#include <optional>
#include <string>

#include "base/identifiers.h"
#include "base/keys.h"
#include "base/time.h"
#include "verbs/mtu.h"
#include "wire/mad/mc_member_record.h"
#include "wire/mad/service_record.h"

namespace weft::programs::vnic {

/// Of the services that a local administrator numbers (IBTA vol 1 annex A3.2.3).
inline constexpr std::uint64_t kServiceId = 0x0200'0000'016B'0078;
/// Of all datagrams that carry 16B packets and MADs of virtual NICs.
inline constexpr QKey kTunnelQKey{0x016B'0078};
/// Policy: how long SA keeps the record of a process that was killed.
inline constexpr Duration kLease = Duration::seconds(15);
inline constexpr Duration kRenewal = Duration::seconds(5);

/// A port that carries Ethernet.
struct Announcement {
  std::string host;  ///< its name, in letters, digits and - _ .
  Gid gid{};
  Lid lid{};
  Qpn mad_qp{};     ///< of the agent of virtual NICs
  Qpn packet_qp{};  ///< of 16B packets
  /// Of an Omni-Path port, which has no QPs: another number is another program.
  std::uint32_t serial{};
  bool operator==(const Announcement&) const = default;
};

/// A host's name as it may stand in a record or a file.
[[nodiscard]] bool is_host_name(std::string_view name);

[[nodiscard]] wire::ServiceRecord to_record(const Announcement& port, PKey pkey);
/// The components of it that SA is to look at when it registers.
[[nodiscard]] std::uint64_t registered_components();
/// None: it is no such service, or says what cannot be.
[[nodiscard]] std::optional<Announcement> from_record(const wire::ServiceRecord& record);

/// The multicast group of a virtual switch: transient and link-local, by the switch's numbers.
[[nodiscard]] Gid group_of(std::uint16_t fabric_id, std::uint16_t vesw_id);
/// How it is joined, and made if it is not there. Its packets have 2048 octets at most.
[[nodiscard]] wire::McMemberRecord group_record(const Gid& group, PKey pkey);
[[nodiscard]] std::uint64_t group_components();

}  // namespace weft::programs::vnic
