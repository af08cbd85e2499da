#include "wire/iwpm/socket_address.h"

#include <fmt/format.h>

#include <span>

namespace weft::wire::iwpm {
namespace {

// Offsets in struct sockaddr_in and struct sockaddr_in6.
constexpr std::size_t kPort = 2;
constexpr std::size_t kV4Address = 4;
constexpr std::size_t kV6Address = 8;
constexpr std::size_t kV6Scope = 24;

template <class T>
[[nodiscard]] T load(ByteSpan octets, std::size_t at) {
  T value{};
  copy_bytes(std::as_writable_bytes(std::span{&value, 1}), octets.subspan(at, sizeof value));
  return value;
}

}  // namespace

std::array<std::byte, kSocketAddressBytes> pack_socket_address(const SocketAddress& address) {
  std::array<std::byte, kSocketAddressBytes> octets{};
  const std::span out{octets};
  copy_bytes(out, bytes_of(address.family));
  if (!address.is_ip()) {
    return octets;
  }
  octets[kPort] = static_cast<std::byte>(address.port >> 8);
  octets[kPort + 1] = static_cast<std::byte>(address.port);
  const bool is_v4 = address.family == kFamilyV4;
  copy_bytes(out.subspan(is_v4 ? kV4Address : kV6Address), address.ip.octets());
  if (!is_v4) {
    copy_bytes(out.subspan(kV6Scope), bytes_of(address.scope));
  }
  return octets;
}

Result<SocketAddress> parse_socket_address(ByteSpan octets) {
  if (octets.size() < kSocketAddressBytes) {
    return fail(ErrorCode::InvalidArgument, "a socket address has {} octets, here are {}",
                kSocketAddressBytes, octets.size());
  }
  SocketAddress address;
  address.family = load<std::uint16_t>(octets, 0);
  if (!address.is_ip()) {
    return address;
  }
  address.port = static_cast<std::uint16_t>(std::to_integer<unsigned>(octets[kPort]) << 8 |
                                            std::to_integer<unsigned>(octets[kPort + 1]));
  if (address.family == kFamilyV4) {
    address.ip = IpAddress{load<IpAddress::V4Octets>(octets, kV4Address)};
  } else {
    address.ip = IpAddress{load<IpAddress::V6Octets>(octets, kV6Address)};
    address.scope = load<std::uint32_t>(octets, kV6Scope);
  }
  return address;
}

std::string to_string(const SocketAddress& address) {
  if (!address.is_ip()) {
    return fmt::format("family {}", address.family);
  }
  if (address.family == kFamilyV4) {
    return fmt::format("{}:{}", to_string(address.ip), address.port);
  }
  return fmt::format("[{}]:{}", to_string(address.ip), address.port);
}

}  // namespace weft::wire::iwpm
