#pragma once

// What programs and the daemon say about MADs: the devices behind umad, an open port and its
// agents. An open port is two connections: the one that asked for it, for agents, and the socket
// that came with the answer, for MADs alone, which programs poll. Included by messages.h.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/identifiers.h"
#include "base/keys.h"

namespace weft::uabi {

/// As libibumad has it: devices of a node, ports of a device (with port 0), agents of an open port.
inline constexpr std::size_t kMaxUmadDevices = 32;
inline constexpr std::size_t kMaxUmadPorts = 10;
inline constexpr std::uint32_t kMaxUmadAgents = 32;

/// Policy: a longer MAD travels as a sealed file beside its message.
inline constexpr std::size_t kMaxMadBytesInMessage = 16'384;
inline constexpr std::size_t kMaxMadBytes = std::size_t{17} << 20;

// --- program to daemon, on the connection that asks

/// Answered by UmadDevices. `node` is a host or a switch.
struct ListUmadDevices {
  std::uint32_t version{};
  std::string node;
};

/// Answered by UmadDevice.
struct DescribeUmadDevice {
  std::uint32_t version{};
  std::string node;
  std::string device;
};

/// Answered by IsSm: the file that a subnet manager at the port keeps open.
struct FindIsSm {
  std::uint32_t version{};
  std::string node;
  std::string device;
  std::uint8_t port{};
};

/// Answered by UmadOpened.
struct OpenUmad {
  std::uint32_t version{};
  std::string node;
  std::string device;
  std::uint8_t port{};
};

/// Answered by UmadAnswer. `methods` is a bit for each method, as in the kernel's request.
struct RegisterUmadAgent {
  std::uint8_t mgmt_class{};  // 0: none, the agent only asks
  std::uint8_t class_version{};
  std::uint8_t rmpp_version{};
  bool does_rmpp{};  // UMAD_USER_RMPP: the program does RMPP itself
  std::uint32_t oui{};
  std::array<std::uint64_t, 2> methods{};
};

/// Answered by UmadAnswer, after which nothing more comes for the agent.
struct UnregisterUmadAgent {
  std::uint32_t agent{};
};

// --- daemon to program

struct UmadDevices {
  std::vector<std::string> names;
};

struct UmadPort {
  std::uint8_t number{};
  std::uint8_t state{};           // PortInfo PortState
  std::uint8_t physical_state{};  // PortInfo PortPhysicalState
  std::uint8_t lmc{};
  Lid lid;
  Lid sm_lid;
  ServiceLevel sm_sl;
  bool is_infiniband{};
  std::uint32_t gigabits{};  // of the link, as sysfs has it: rounded down
  std::uint32_t capability_mask{};
  Gid gid;
  std::vector<PKey> pkeys;
};

struct UmadDevice {
  bool is_switch{};
  Guid node_guid;
  Guid system_image_guid;
  std::vector<UmadPort> ports;
};

struct IsSm {
  std::string path;
};

/// Descriptor: the socket for MADs.
struct UmadOpened {};

/// `error` is an errno, 0 for none, and then `agent` the number that the program knows it by.
struct UmadAnswer {
  std::uint32_t error{};
  std::uint32_t agent{};
  std::string reason;
};

// --- both ways, on the socket for MADs

/// What stands before a MAD in umad: numbers in this machine's order.
struct UmadHeader {
  std::uint32_t agent{};
  std::uint32_t status{};  // an errno: why a MAD that was sent comes back
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

struct UmadMad {
  UmadHeader header;
  std::vector<std::byte> mad;
};

/// Descriptor: a sealed file of `length` bytes, the MAD.
struct LongUmadMad {
  UmadHeader header;
  std::uint32_t length{};
};

}  // namespace weft::uabi
