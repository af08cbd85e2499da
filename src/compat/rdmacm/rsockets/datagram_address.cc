#include "compat/rdmacm/rsockets/datagram_address.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "fabric/addresses.h"

namespace weft::rsockets {
namespace {

[[nodiscard]] sockaddr_in6 as_ip6(const DatagramName& name) {
  sockaddr_in6 out{};
  out.sin6_family = AF_INET6;
  out.sin6_port = htons(name.port);
  const auto octets = std::as_writable_bytes(std::span{out.sin6_addr.s6_addr});
  if (name.address.is_v4()) {
    octets[10] = octets[11] = std::byte{0xFF};
  }
  std::ranges::copy(name.address.octets(), octets.last(name.address.octets().size()).begin());
  return out;
}

template <class Address>
[[nodiscard]] sockaddr_storage as_storage(const Address& address) {
  sockaddr_storage out{};
  std::memcpy(&out, &address, sizeof address);
  return out;
}

}  // namespace

std::optional<DatagramName> read_name(const sockaddr* address) {
  if (address != nullptr && address->sa_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, address, sizeof in);
    return DatagramName{.address = IpAddress::v4(ntohl(in.sin_addr.s_addr)),
                        .port = ntohs(in.sin_port)};
  }
  if (address != nullptr && address->sa_family == AF_INET6) {
    sockaddr_in6 in{};
    std::memcpy(&in, address, sizeof in);
    IpAddress::V6Octets octets{};
    std::ranges::copy(std::as_bytes(std::span{in.sin6_addr.s6_addr}), octets.begin());
    return DatagramName{.address = IpAddress{octets}.unmapped(), .port = ntohs(in.sin6_port)};
  }
  return std::nullopt;
}

sockaddr_storage for_socket_of(int family, const DatagramName& name) {
  return family == AF_INET6 ? as_storage(as_ip6(name)) : as_socket_address(name);
}

sockaddr_storage as_socket_address(const DatagramName& name) {
  return name.address.is_v4() ? as_storage(as_udp_address(name)) : as_storage(as_ip6(name));
}

sockaddr_in as_udp_address(const DatagramName& name) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_port = htons(name.port);
  out.sin_addr.s_addr = htonl(name.address.v4_number());
  return out;
}

AddressBook address_book() {
  return {.ipv4_beside = fabric::ipv4_beside, .ipv6_beside = fabric::ipv6_beside};
}

}  // namespace weft::rsockets
