#include "programs/net/host_interface.h"

#include <ifaddrs.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>

#include "programs/host/background.h"
#include "programs/net/addresses.h"

namespace weft::programs::net {
namespace {

[[nodiscard]] std::optional<IpAddress> address_in(const sockaddr* address) {
  if (address == nullptr) {
    return std::nullopt;
  }
  if (address->sa_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, address, sizeof in);
    return IpAddress::v4(ntohl(in.sin_addr.s_addr));
  }
  if (address->sa_family == AF_INET6) {
    sockaddr_in6 in{};
    std::memcpy(&in, address, sizeof in);
    IpAddress::V6Octets octets{};
    std::memcpy(octets.data(), &in.sin6_addr, octets.size());
    return IpAddress{octets};
  }
  return std::nullopt;
}

[[nodiscard]] std::uint8_t bits_of(const std::optional<IpAddress>& mask) {
  int bits = 0;
  for (const std::byte octet : mask ? mask->octets() : std::span<const std::byte>{}) {
    bits += std::popcount(std::to_integer<std::uint8_t>(octet));
  }
  return static_cast<std::uint8_t>(bits);
}

}  // namespace

Result<os::UniqueFd> take_interface(const std::string& name, std::string_view service) {
  auto taken = take_service(service, [&] { return if_nametoindex(name.c_str()) != 0; });
  if (!taken && taken.error().code == ErrorCode::Exists) {
    return fail(ErrorCode::Exists, "{} is up already", name);
  }
  return taken;
}

Result<std::uint32_t> mtu_of(const std::string& interface) {
  ifreq request{};
  interface.copy(request.ifr_name, sizeof request.ifr_name - 1);
  const os::UniqueFd socket{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  if (!socket || ioctl(socket.get(), SIOCGIFFLAGS, &request) != 0) {
    return fail(ErrorCode::NotFound, "{}: {}", interface, std::strerror(errno));
  }
  if ((request.ifr_flags & IFF_UP) == 0 || ioctl(socket.get(), SIOCGIFMTU, &request) != 0) {
    return fail(ErrorCode::NotFound, "{} is not up", interface);
  }
  return static_cast<std::uint32_t>(request.ifr_mtu);
}

std::vector<InterfaceAddress> prefixed_addresses_of(const std::string& interface) {
  std::vector<InterfaceAddress> addresses;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) {
    return addresses;
  }
  for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
    if (std::string_view{each->ifa_name} == interface) {
      if (const auto address = address_in(each->ifa_addr)) {
        addresses.push_back({*address, bits_of(address_in(each->ifa_netmask))});
      }
    }
  }
  freeifaddrs(all);
  return addresses;
}

std::vector<IpAddress> addresses_of(const std::string& interface) {
  std::vector<IpAddress> addresses;
  std::ranges::transform(prefixed_addresses_of(interface), std::back_inserter(addresses),
                         &InterfaceAddress::address);
  return addresses;
}

bool has_ipv6(const std::string& interface) {
  return ::access(("/proc/sys/net/ipv6/conf/" + interface).c_str(), F_OK) == 0;
}

bool has_tentative_address(const std::string& interface) {
  std::ifstream addresses{"/proc/net/if_inet6"};
  return has_tentative_address(addresses, interface);
}

Result<os::NetlinkSocket> watch_interfaces() {
  constexpr std::array<std::uint32_t, 3> kGroups{RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR,
                                                 RTNLGRP_IPV6_IFADDR};
  return os::NetlinkSocket::open(NETLINK_ROUTE, kGroups);
}

}  // namespace weft::programs::net
