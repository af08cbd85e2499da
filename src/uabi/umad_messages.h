#pragma once

// umad messages between programs and the daemon: devices, open ports, agents and MADs. An open port
// consists of two sockets: the connection that opened it, for agents, and a socket passed in the
// answer, for MADs, which programs poll. Included by messages.h.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/identifiers.h"
#include "base/keys.h"

namespace weft::uabi {

/// Limits of libibumad: devices per node, ports per device (including port 0), agents per open
/// port.
inline constexpr std::size_t kMaxUmadDevices = 32;
inline constexpr std::size_t kMaxUmadPorts = 10;
inline constexpr std::uint32_t kMaxUmadAgents = 32;

/// Policy, not from the specification: a longer MAD is passed as a sealed file.
inline constexpr std::size_t kMaxMadBytesInMessage = 16'384;
inline constexpr std::size_t kMaxMadBytes = std::size_t{17} << 20;

// --- program to daemon, on the connection

/// Lists the umad devices of a node (host or switch). Answered by UmadDevices.
struct ListUmadDevices {
  std::uint32_t version{};
  std::string node;
};

/// Queries a device. Answered by UmadDevice.
struct DescribeUmadDevice {
  std::uint32_t version{};
  std::string node;
  std::string device;
};

/// Requests the path of the file that a subnet manager keeps open. Answered by IsSm.
struct FindIsSm {
  std::uint32_t version{};
  std::string node;
  std::string device;
  std::uint8_t port{};
};

/// Opens a port. Answered by UmadOpened.
struct OpenUmad {
  std::uint32_t version{};
  std::string node;
  std::string device;
  std::uint8_t port{};
};

/// Registers an agent. Answered by UmadAnswer. `methods` is a bitmap, as in the kernel's ABI.
struct RegisterUmadAgent {
  std::uint8_t mgmt_class{};  // 0: the agent only sends requests
  std::uint8_t class_version{};
  std::uint8_t rmpp_version{};
  bool does_rmpp{};  // UMAD_USER_RMPP: the program implements RMPP
  std::uint32_t oui{};
  std::array<std::uint64_t, 2> methods{};
};

/// Answered by UmadAnswer, after which no MAD is delivered for the agent.
struct UnregisterUmadAgent {
  std::uint32_t agent{};
};

// --- daemon to program

/// Answer to ListUmadDevices.
struct UmadDevices {
  std::vector<std::string> names;
};

/// A port of a device.
struct UmadPort {
  std::uint8_t number{};
  std::uint8_t state{};           // PortInfo PortState
  std::uint8_t physical_state{};  // PortInfo PortPhysicalState
  std::uint8_t lmc{};
  Lid lid;
  Lid sm_lid;
  ServiceLevel sm_sl;
  bool is_infiniband{};
  std::uint32_t gigabits{};  // link rate, rounded down as in sysfs
  std::uint32_t capability_mask{};
  std::uint16_t pkey_violations{};  // this and what follows up to the GID as in PortInfo
  std::uint16_t qkey_violations{};
  std::uint8_t subnet_timeout{};
  std::uint8_t init_type_reply{};
  Gid gid;
  std::vector<PKey> pkeys;
};

/// Answer to DescribeUmadDevice.
struct UmadDevice {
  bool is_switch{};
  Guid node_guid;
  Guid system_image_guid;
  std::vector<UmadPort> ports;
};

/// Answer to FindIsSm.
struct IsSm {
  std::string path;
};

/// Answer to OpenUmad. Descriptor: the socket for MADs.
struct UmadOpened {};

/// `error` is an errno, or 0 for success; then `agent` is the agent's number.
struct UmadAnswer {
  std::uint32_t error{};
  std::uint32_t agent{};
  std::string reason;
};

// --- both directions, on the socket for MADs

/// The header in front of a MAD in umad, in host byte order.
struct UmadHeader {
  std::uint32_t agent{};
  std::uint32_t status{};  // errno for a MAD that is returned to its sender
  std::uint32_t timeout_ms{};
  std::uint32_t retries{};
  Qpn qpn;
  Lid lid;
  ServiceLevel sl;
  std::uint8_t path_bits{};
  std::uint16_t pkey_index{};
  bool has_grh{};
  std::uint8_t hop_limit{};
  std::uint8_t traffic_class{};
  std::uint32_t flow_label{};
  Gid gid;
  bool operator==(const UmadHeader&) const = default;
};

/// A MAD.
struct UmadMad {
  UmadHeader header;
  std::vector<std::byte> mad;
};

/// A MAD too long for a message. Descriptor: a sealed file of `length` bytes.
struct LongUmadMad {
  UmadHeader header;
  std::uint32_t length{};
};

}  // namespace weft::uabi
