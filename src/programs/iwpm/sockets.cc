#include "programs/iwpm/sockets.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>

namespace weft::programs::iwpm {

using wire::iwpm::SocketAddress;

RawAddress raw(const SocketAddress& address) {
  // The messages' own form of an address is the system's (wire/iwpm/socket_address.h).
  const auto packed = wire::iwpm::pack_socket_address(address);
  RawAddress out;
  static_assert(sizeof out.storage == wire::iwpm::kSocketAddressBytes);
  std::memcpy(&out.storage, packed.data(), packed.size());
  out.size = address.family == wire::iwpm::kFamilyV6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  return out;
}

std::optional<SocketAddress> address_of(const sockaddr* address) {
  if (address == nullptr) {
    return std::nullopt;
  }
  std::array<std::byte, wire::iwpm::kSocketAddressBytes> octets{};
  const std::size_t size = address->sa_family == AF_INET    ? sizeof(sockaddr_in)
                           : address->sa_family == AF_INET6 ? sizeof(sockaddr_in6)
                                                            : 0;
  std::memcpy(octets.data(), address, size);
  const auto parsed = wire::iwpm::parse_socket_address(octets);
  return size != 0 && parsed && parsed->is_ip() ? std::optional{*parsed} : std::nullopt;
}

Result<os::UniqueFd> bound_socket(int type, const SocketAddress& address) {
  const bool is_v6 = address.family == wire::iwpm::kFamilyV6;
  os::UniqueFd fd{socket(is_v6 ? AF_INET6 : AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (!fd) {
    return fail(ErrorCode::Io, "a socket: {}", std::strerror(errno));
  }
  const int one = 1;
  if (is_v6) {
    setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
  }
  if (type == SOCK_STREAM) {
    // A driver without an own stack listens where its port is kept.
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  }
  const RawAddress wanted = raw(address);
  if (bind(fd.get(), std::bit_cast<const sockaddr*>(&wanted.storage), wanted.size) != 0) {
    return fail(errno == EADDRINUSE ? ErrorCode::AddressInUse : ErrorCode::Io, "{}: {}",
                wire::iwpm::to_string(address), std::strerror(errno));
  }
  return fd;
}

std::uint16_t port_of(const os::UniqueFd& socket) {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  auto* const address = std::bit_cast<sockaddr*>(&own);
  const auto known =
      getsockname(socket.get(), address, &size) == 0 ? address_of(address) : std::nullopt;
  return known ? known->port : std::uint16_t{};
}

bool has_address(const IpAddress& address) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) {
    return false;
  }
  bool is_there = false;
  for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
    const auto own = address_of(each->ifa_addr);
    is_there = is_there || (own && own->ip == address);
  }
  freeifaddrs(all);
  return is_there;
}

Result<SocketAddress> parse_address(std::string_view text) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    return fail(ErrorCode::InvalidArgument, "{} is no address with a port, as 10.77.0.1:5000",
                text);
  }
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  }
  const auto ip = parse_ip_address(host);
  if (!ip) {
    return std::unexpected(ip.error());
  }
  const std::string_view digits = text.substr(colon + 1);
  std::uint16_t port = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (read.ec != std::errc{} || read.ptr != digits.data() + digits.size() || port == 0) {
    return fail(ErrorCode::InvalidArgument, "{} is no port from 1 to 65535", digits);
  }
  return SocketAddress{*ip, port};
}

}  // namespace weft::programs::iwpm
