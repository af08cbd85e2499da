#pragma once

// Messages between the daemon and a program at an Omni-Path port of its host. Such a program has
// two sockets: the connection by which it attached, for groups, capabilities and the port's events,
// and a socket passed in the answer, for 16B packets, which it polls. Included by messages.h.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/identifiers.h"
#include "base/keys.h"

namespace weft::uabi {

/// Limits; policy, not from the specification: ports in one message, and packets, which together
/// have no more octets than kMaxOmniPathBatchBytes.
inline constexpr std::size_t kMaxOmniPathPorts = 64;
inline constexpr std::size_t kMaxOmniPathPackets = 64;
inline constexpr std::size_t kMaxOmniPathBatchBytes = 24'576;

/// Bits of an Omni-Path port's capability mask 3 (the kernel's opa_port_info.h), of which one is
/// known here: virtual NICs are carried.
inline constexpr std::uint16_t kOmniPathEthernetOnFabric = 1U << 13;

// --- program to daemon, on the connection

/// Lists the Omni-Path ports of a host; of no name: of all hosts. Answered by OmniPathPorts.
struct AskOmniPathPorts {
  std::uint32_t version{};
  std::string host{};
};

/// Attaches to a port of the host: `hca` counts its HCAs from 0. Answered by OmniPathAttached and
/// OmniPathPortState. The program is given Ethernet packets if it takes them, and MADs of virtual
/// NICs' class: requests of the methods whose bits are set, and answers if it takes them. No two
/// programs at a port are given the same.
struct AttachOmniPath {
  std::uint32_t version{};
  std::string host{};
  std::uint32_t hca{};
  std::uint8_t port{};
  bool takes_ethernet{};
  bool takes_answers{};
  bool watches_ports{};  // is told by OmniPathPortsChanged
  std::array<std::uint64_t, 2> mad_methods{};
};

/// Multicast packets to this LID come to the port until the program leaves the group or ends.
/// Answered by OmniPathGroupJoined.
struct JoinOmniPathGroup {
  Lid mlid{};
};
struct LeaveOmniPathGroup {
  Lid mlid{};
};

/// Sets the port's capabilities, until the program ends.
struct SetOmniPathCapabilities {
  std::uint16_t mask{};
};

// --- daemon to program, on the connection

/// A port as the manager of the Omni-Path part knows it.
struct OmniPathPortInfo {
  std::string host{};
  std::uint32_t hca{};
  std::uint8_t port{};
  Lid lid{};  // 24 bits
  bool is_active{};
  std::uint16_t capabilities{};
  std::uint32_t capability_changes{};  // another number: another program may have set the same
};

/// Part of the answer to AskOmniPathPorts.
struct OmniPathPorts {
  bool is_last{};
  std::vector<OmniPathPortInfo> ports{};
};

/// Answer to AttachOmniPath. Descriptor: the socket for packets.
struct OmniPathAttached {};

/// The port as it is now: after OmniPathAttached, and whenever something of it has changed.
struct OmniPathPortState {
  Lid lid{};
  bool is_active{};
  std::vector<PKey> pkeys{};
};

/// Answer to JoinOmniPathGroup, when the switches know it; with a reason: it is not joined.
struct OmniPathGroupJoined {
  Lid mlid{};
  std::string reason{};
};

/// A port of some host has come, gone, or has another LID or other capabilities.
struct OmniPathPortsChanged {};

// --- both directions, on the socket for packets

/// A 16B packet, from its link header to its tail.
struct OmniPathOctets {
  std::vector<std::byte> octets{};
};

struct OmniPathPackets {
  std::uint64_t lost{};  // from the daemon: packets for the program so far that had no room
  std::vector<OmniPathOctets> packets{};
};

}  // namespace weft::uabi
