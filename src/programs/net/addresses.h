#pragma once

// Which addresses a host's IPoIB interface has, by a formula, so that they need no file: those of
// eth0 with other prefixes. Pure.

#include <cstdint>
#include <istream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/identifiers.h"
#include "base/ip_address.h"
#include "base/keys.h"
#include "base/result.h"

namespace weft::programs::net {

/// What an interface has in place of eth0's prefixes 127.77/16 and fd77::/64.
struct AddressPrefixes {
  std::string_view interface;
  std::uint32_t ipv4{};          ///< its upper half, the other is 0; all of it: no IPv4
  std::uint64_t unique_local{};  ///< of a /64
};

/// Of eth0's addresses 127.77.x.y and fd77::n: with those prefixes. NotFound: eth0 has neither.
[[nodiscard]] Result<std::vector<InterfaceAddress>> addresses_by_position(
    const AddressPrefixes& prefixes, std::span<const IpAddress> of_eth0);

/// Those that are given, as 10.77.0.1/16. InvalidArgument: one is none.
[[nodiscard]] Result<std::vector<InterfaceAddress>> parse_interface_addresses(
    std::span<const std::string> texts);

/// Of eth0's addresses 127.77.x.y and fd77::n those of ib0: 10.77.x.y/16 and fd77:1b::n/64; of ib1,
/// on another port: 10.78.x.y/16 and fd77:1b:1::n/64. NotFound: eth0 has neither.
[[nodiscard]] Result<std::vector<InterfaceAddress>> ib_addresses(
    std::uint32_t port_of_host, std::span<const IpAddress> of_eth0);
/// The same of a child in that partition: fd77:1b:0:PARTITION::n/64. No prefix of IPv4 has room for
/// a P_Key and all hosts.
[[nodiscard]] Result<std::vector<InterfaceAddress>> child_addresses(
    std::uint32_t port_of_host, PKey pkey, std::span<const IpAddress> of_eth0);

/// The link-local address of the interfaces of that port (RFC 4391 §8): its GUID, an EUI-64, with
/// the universal bit set, whether it had that or not.
[[nodiscard]] InterfaceAddress link_local_address(Guid port_guid);

/// Whether `if_inet6`, which is /proc/net/if_inet6, has an address of the interface that may not be
/// used yet (RFC 4862 §5.4): the kernel discards what comes for it.
[[nodiscard]] bool has_tentative_address(std::istream& if_inet6, std::string_view interface);

}  // namespace weft::programs::net
