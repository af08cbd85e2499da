#include "kernel/socket_address.h"

#include <netinet/in.h>

#include <bit>
#include <cstring>

namespace weft::kernel {
namespace {

[[nodiscard]] std::uint16_t swapped(std::uint16_t port) {
  return std::endian::native == std::endian::big ? port : std::byteswap(port);
}

}  // namespace

Result<core::RdmaCmAddress> address_of(const sockaddr* address) {
  if (address != nullptr && address->sa_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, address, sizeof v4);
    return core::RdmaCmAddress{
        .address = IpAddress{std::bit_cast<IpAddress::V4Octets>(v4.sin_addr.s_addr)},
        .port = swapped(v4.sin_port)};
  }
  if (address != nullptr && address->sa_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, address, sizeof v6);
    return core::RdmaCmAddress{
        .address = IpAddress{std::bit_cast<IpAddress::V6Octets>(v6.sin6_addr.s6_addr)},
        .port = swapped(v6.sin6_port)};
  }
  return fail(ErrorCode::InvalidArgument, "an address is one of AF_INET or AF_INET6");
}

void store(sockaddr_storage& into, const core::RdmaCmAddress& address) {
  into = {};
  if (address.address.is_v4()) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = swapped(address.port);
    v4.sin_addr.s_addr = std::bit_cast<std::uint32_t>(address.address.v4_octets());
    std::memcpy(&into, &v4, sizeof v4);
    return;
  }
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = swapped(address.port);
  v6.sin6_addr = std::bit_cast<in6_addr>(address.address.v6_octets());
  std::memcpy(&into, &v6, sizeof v6);
}

}  // namespace weft::kernel
