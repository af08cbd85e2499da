#pragma once

// struct sockaddr_storage as the iWARP port mapper's netlink messages carry it: 128 octets, the
// family in the machine's byte order, the port in network order (linux/socket.h, linux/in.h,
// linux/in6.h).

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "base/ip_address.h"
#include "base/result.h"

namespace weft::wire::iwpm {

inline constexpr std::size_t kSocketAddressBytes = 128;

/// Address families, as Linux numbers them.
inline constexpr std::uint16_t kFamilyUnspecified = 0;
inline constexpr std::uint16_t kFamilyV4 = 2;
inline constexpr std::uint16_t kFamilyV6 = 10;

/// An IP address with a port; or a family that means nothing here, which keeps no address.
struct SocketAddress {
  std::uint16_t family{kFamilyUnspecified};
  IpAddress ip;
  std::uint16_t port{};
  std::uint32_t scope{};  ///< the interface of a link-local IPv6 address, else 0

  SocketAddress() = default;
  SocketAddress(const IpAddress& address, std::uint16_t its_port)
      : family(address.is_v4() ? kFamilyV4 : kFamilyV6), ip(address), port(its_port) {}

  [[nodiscard]] bool is_ip() const { return family == kFamilyV4 || family == kFamilyV6; }
  /// Any address of this host.
  [[nodiscard]] bool is_wildcard() const { return is_ip() && ip.is_unspecified(); }
  [[nodiscard]] SocketAddress with_port(std::uint16_t other) const {
    SocketAddress changed = *this;
    changed.port = other;
    return changed;
  }
  /// Address and port; the scope is not part of a connection's identity here.
  [[nodiscard]] bool is_same(const SocketAddress& other) const {
    return is_ip() && family == other.family && ip == other.ip && port == other.port;
  }
  bool operator==(const SocketAddress&) const = default;
};

[[nodiscard]] std::array<std::byte, kSocketAddressBytes> pack_socket_address(
    const SocketAddress& address);

/// Fails if there are fewer than 128 octets. An unknown family is no failure: who asks for an IP
/// address looks at is_ip().
[[nodiscard]] Result<SocketAddress> parse_socket_address(ByteSpan octets);

/// `10.0.0.1:80`, `[fe80::1]:80`, or `family 7`.
[[nodiscard]] std::string to_string(const SocketAddress& address);

}  // namespace weft::wire::iwpm
