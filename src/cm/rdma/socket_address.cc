#include "cm/rdma/socket_address.h"

#include <fmt/format.h>

#include "base/bytes.h"

namespace weft::cm {
namespace {

/// Port number bits of an AF_IB service ID (librdmacm: bits 0 to 15).
constexpr std::uint64_t kPortBits = 0xFFFF;

}  // namespace

bool is_wildcard(const SocketAddress& address) {
  if (const auto* const ip = std::get_if<IpEndpoint>(&address)) {
    return ip->address.is_unspecified();
  }
  const auto* const ib = std::get_if<IbEndpoint>(&address);
  return ib == nullptr || ib->gid.is_zero();
}

std::uint16_t port_number_of(const SocketAddress& address) {
  if (const auto* const ip = std::get_if<IpEndpoint>(&address)) {
    return ip->port;
  }
  const auto* const ib = std::get_if<IbEndpoint>(&address);
  return ib == nullptr ? std::uint16_t{0}
                       : static_cast<std::uint16_t>(ib->service_id & ib->service_mask & kPortBits);
}

void set_port_number(SocketAddress& address, std::uint16_t port) {
  if (auto* const ip = std::get_if<IpEndpoint>(&address)) {
    ip->port = port;
  } else if (auto* const ib = std::get_if<IbEndpoint>(&address)) {
    ib->service_id = (ib->service_id & ~kPortBits) | port;
    ib->service_mask |= kPortBits;
  }
}

std::string to_string(const SocketAddress& address) {
  if (const auto* const ip = std::get_if<IpEndpoint>(&address)) {
    return ip->address.is_v4() ? fmt::format("{}:{}", to_string(ip->address), ip->port)
                               : fmt::format("[{}]:{}", to_string(ip->address), ip->port);
  }
  if (const auto* const ib = std::get_if<IbEndpoint>(&address)) {
    return fmt::format("GID {:016x}:{:016x}, service {:#x}", ib->gid.prefix(),
                       ib->gid.interface_id().value(), ib->service_id);
  }
  return "no address";
}

std::uint64_t service_id_of(PortSpace space, const SocketAddress& address) {
  const auto* const ib = std::get_if<IbEndpoint>(&address);
  return ib != nullptr ? ib->service_id : service_id_of(space, port_number_of(address));
}

}  // namespace weft::cm
