#pragma once

// Addresses used by RDMA-CM: an IP address with a port number, or a native InfiniBand address
// (AF_IB, IBTA vol 1 annex A11). Value types.

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

/// An IP address and port number. The unspecified address means all addresses of the host.
struct IpEndpoint {
  IpAddress address{};
  std::uint16_t port{};
  std::uint64_t scope{};
  std::uint32_t flow_info{};
  friend bool operator==(const IpEndpoint&, const IpEndpoint&) = default;
};

/// Contents of a sockaddr_ib. A GID of zero means all ports of the host.
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
/// True for 127.0.0.1 and ::1. All other addresses of 127.0.0.0/8 belong to simulated hosts
/// (docs/ARCHITECTURE.md, decision 16).
[[nodiscard]] inline bool is_own_loopback(const IpAddress& address) {
  return address == IpAddress::v4(0x7F00'0001) || address == IpAddress::v6(0, 1);
}
/// True if the address does not select one port of the host.
[[nodiscard]] bool is_wildcard(const SocketAddress& address);
[[nodiscard]] std::uint16_t port_number_of(const SocketAddress& address);
void set_port_number(SocketAddress& address, std::uint16_t port);
[[nodiscard]] std::string to_string(const SocketAddress& address);

/// The service ID of an IP port number: prefix 0x00000000'01PPnnnn, where 01PP is the port space
/// (annex A11).
[[nodiscard]] constexpr std::uint64_t service_id_of(PortSpace space, std::uint16_t port) {
  return std::uint64_t{static_cast<std::uint16_t>(space)} << 16 | port;
}
/// As above; an AF_IB address carries its own service ID.
[[nodiscard]] std::uint64_t service_id_of(PortSpace space, const SocketAddress& address);

}  // namespace weft::cm
