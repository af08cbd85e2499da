#pragma once

// What of ib0 and its children stands in the host's own files: which process has it; and what other
// interfaces have.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/ip_address.h"
#include "base/result.h"
#include "os/netlink_socket.h"
#include "os/unique_fd.h"

namespace weft::programs::net {

/// The host's one process that has the interface, as long as the descriptor is open. Exists:
/// another has.
[[nodiscard]] Result<os::UniqueFd> take_interface(const std::string& name,
                                                  std::string_view service);
/// NotFound: no such interface is up.
[[nodiscard]] Result<std::uint32_t> mtu_of(const std::string& interface);
[[nodiscard]] std::vector<IpAddress> addresses_of(const std::string& interface);
/// The same with their prefixes.
[[nodiscard]] std::vector<InterfaceAddress> prefixed_addresses_of(const std::string& interface);
/// The kernel gives the interface addresses of IPv6.
[[nodiscard]] bool has_ipv6(const std::string& interface);
/// One of its addresses may not be used yet. Also of an interface that wants no duplicate address
/// detection: the kernel does its part later, in a thread of its own.
[[nodiscard]] bool has_tentative_address(const std::string& interface);
/// Becomes readable when interfaces of the host, or their addresses, change (rtnetlink(7)); what it
/// says is not worth reading, as it may have lost some of it.
[[nodiscard]] Result<os::NetlinkSocket> watch_interfaces();

}  // namespace weft::programs::net
