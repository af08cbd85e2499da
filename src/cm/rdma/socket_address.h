#pragma once

// The addresses that RDMA-CM's users name: IP with a port, or InfiniBand's own (AF_IB, IBTA vol 1
// annex A11). Values.

#include <cstdint>
#include <string>
#include <variant>

#include "base/identifiers.h"
#include "base/ip_address.h"
#include "base/keys.h"

namespace weft::cm {

/// Numbers of librdmacm's enum rdma_port_space.
enum class PortSpace : std::uint16_t {
  Ipoib = 0x0002,
  Tcp = 0x0106,
  Udp = 0x0111,
  Ib = 0x013F,
};

/// What IP users give: an unspecified address is every address of the host.
struct IpEndpoint {
  IpAddress address{};
  std::uint16_t port{};
  std::uint64_t scope{};
  std::uint32_t flow_info{};
  friend bool operator==(const IpEndpoint&, const IpEndpoint&) = default;
};

/// sockaddr_ib. A GID of zero is every port of the host.
struct IbEndpoint {
  Gid gid{};
  PKey pkey{};
  std::uint32_t flow_info{};
  std::uint64_t service_id{};
  std::uint64_t service_mask{};
  std::uint64_t scope{};
  friend bool operator==(const IbEndpoint&, const IbEndpoint&) = default;
};

using SocketAddress = std::variant<std::monostate, IpEndpoint, IbEndpoint>;

[[nodiscard]] inline bool is_given(const SocketAddress& address) {
  return !std::holds_alternative<std::monostate>(address);
}
/// 127.0.0.1 and ::1. The rest of 127.0.0.0/8 belongs to hosts of the fabric (docs/ARCHITECTURE.md,
/// decision 16).
[[nodiscard]] inline bool is_own_loopback(const IpAddress& address) {
  return address == IpAddress::v4(0x7F00'0001) || address == IpAddress::v6(0, 1);
}
/// Names no port of the host in particular.
[[nodiscard]] bool is_wildcard(const SocketAddress& address);
[[nodiscard]] std::uint16_t port_number_of(const SocketAddress& address);
void set_port_number(SocketAddress& address, std::uint16_t port);
[[nodiscard]] std::string to_string(const SocketAddress& address);

/// Annex A11: IP port numbers are service ids of the prefix of RDMA-CM, 0x00000000'01PPnnnn,
/// where a port space is 0x0106 (TCP), 0x0111 (UDP) and so on.
[[nodiscard]] constexpr std::uint64_t service_id_of(PortSpace space, std::uint16_t port) {
  return std::uint64_t{static_cast<std::uint16_t>(space)} << 16 | port;
}
/// Of an AF_IB address its own.
[[nodiscard]] std::uint64_t service_id_of(PortSpace space, const SocketAddress& address);

}  // namespace weft::cm
