#include "fabric/addresses.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "fabric/topology_check.h"

namespace weft::fabric {
namespace {

constexpr std::uint32_t kFirstIpv4Octet = 77;
constexpr std::uint8_t kIpv4PrefixBits = 8;
constexpr std::uint8_t kIpv6PrefixBits = 48;
constexpr std::uint8_t kLinkLocalPrefixBits = 64;
constexpr std::uint64_t kUniqueLocal = 0xFD77'0000'0000'0000;

[[nodiscard]] InterfaceAddress whole_ipv4_block() {
  return {IpAddress::v4(127U << 24), kIpv4PrefixBits};
}

/// True for addresses that a port may have by position.
[[nodiscard]] bool is_by_position(const IpAddress& address) {
  if (address.is_v6()) {
    return InterfaceAddress{IpAddress::v6(kUniqueLocal, 0), kIpv6PrefixBits}.covers(address);
  }
  const std::uint32_t block = address.v4_number() >> 16 & 0xFF;
  return whole_ipv4_block().covers(address) && block >= kFirstIpv4Octet &&
         block < kFirstIpv4Octet + kMaxPortsWithIpv4;
}

[[nodiscard]] const HcaPortDescription* find_port(const HostDescription& host,
                                                  std::uint32_t port_of_host, EndPoint& end) {
  for (const HcaDescription& hca : host.hcas) {
    if (port_of_host < hca.ports.size()) {
      end.port = PortNumber{static_cast<std::uint8_t>(port_of_host + 1)};
      return &hca.ports[port_of_host];
    }
    port_of_host -= static_cast<std::uint32_t>(hca.ports.size());
    ++end.hca;
  }
  return nullptr;
}

/// Calls take(end, address) for each address in the topology, until one is refused.
template <class Take>
[[nodiscard]] Result<void> for_each_given(const Topology& topology, Take take) {
  for (std::uint32_t position = 0; position < topology.hosts.size(); ++position) {
    const HostDescription& host = topology.hosts[position];
    EndPoint end{NodeKind::Host, position, 0, PortNumber{1}};
    for (const InterfaceAddress& address : host.addresses) {
      if (auto taken = take(end, address); !taken) {
        return taken;
      }
    }
    for (std::size_t hca = 0; hca < host.hcas.size(); ++hca) {
      for (std::size_t port = 0; port < host.hcas[hca].ports.size(); ++port) {
        end.hca = static_cast<std::uint8_t>(hca);
        end.port = PortNumber{static_cast<std::uint8_t>(port + 1)};
        for (const InterfaceAddress& address : host.hcas[hca].ports[port].addresses) {
          if (auto taken = take(end, address); !taken) {
            return taken;
          }
        }
      }
    }
  }
  return {};
}

/// The port with this link-local address by its GUID; nullopt if there is none.
[[nodiscard]] std::optional<EndPoint> find_link_local(const Topology& topology,
                                                      const IpAddress& address) {
  for (std::uint32_t position = 0; position < topology.hosts.size(); ++position) {
    EndPoint end{NodeKind::Host, position, 0, PortNumber{1}};
    for (std::uint32_t k = 0; find_port(topology.hosts[position], k, end) != nullptr; ++k) {
      if (link_local_of(guid_of(topology, end)) == address) {
        return end;
      }
      end = EndPoint{NodeKind::Host, position, 0, PortNumber{1}};
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<IpAddress> ipv4_of(std::uint32_t host, std::uint32_t port_of_host) {
  if (host >= kMaxHostsWithIpv4 || port_of_host >= kMaxPortsWithIpv4) {
    return std::nullopt;
  }
  return IpAddress::v4(127U << 24 | (kFirstIpv4Octet + port_of_host) << 16 | (host + 1));
}

IpAddress ipv6_of(std::uint32_t host, std::uint32_t port_of_host) {
  return IpAddress::v6(kUniqueLocal, std::uint64_t{port_of_host} << 48 | (host + 1));
}

std::optional<IpAddress> ipv4_beside(const IpAddress& address) {
  if (address.is_v4()) {
    return address;
  }
  std::uint64_t low = 0;
  for (const std::byte octet : address.octets().last(8)) {
    low = low << 8 | std::to_integer<std::uint64_t>(octet);
  }
  const auto number = static_cast<std::uint32_t>(low);  // counted from 1
  const auto port_of_host = static_cast<std::uint32_t>(low >> 48);
  if (number == 0 || ipv6_of(number - 1, port_of_host) != address) {
    return std::nullopt;
  }
  return ipv4_of(number - 1, port_of_host);
}

std::optional<IpAddress> ipv6_beside(const IpAddress& address) {
  if (address.is_v6()) {
    return address;
  }
  const std::uint32_t number = address.v4_number() & 0xFFFF;  // counted from 1
  if (number == 0 || !is_by_position(address)) {
    return std::nullopt;
  }
  return ipv6_of(number - 1, (address.v4_number() >> 16 & 0xFF) - kFirstIpv4Octet);
}

IpAddress link_local_of(Guid guid) {
  constexpr std::uint64_t kUniversal = 0x0200'0000'0000'0000;
  return IpAddress::v6(0xFE80'0000'0000'0000, guid.value() | kUniversal);
}

std::vector<InterfaceAddress> addresses_of(const Topology& topology, std::uint32_t host,
                                           std::uint32_t port_of_host) {
  std::vector<InterfaceAddress> addresses;
  EndPoint end{NodeKind::Host, host, 0, PortNumber{1}};
  const HostDescription& description = topology.hosts.at(host);
  const HcaPortDescription* const port = find_port(description, port_of_host, end);
  if (port == nullptr) {
    return addresses;
  }
  if (const auto ipv4 = ipv4_of(host, port_of_host)) {
    addresses.push_back({*ipv4, kIpv4PrefixBits});
  }
  addresses.push_back({ipv6_of(host, port_of_host), kIpv6PrefixBits});
  addresses.push_back({link_local_of(guid_of(topology, end)), kLinkLocalPrefixBits});
  if (port_of_host == 0) {
    std::ranges::copy(description.addresses, std::back_inserter(addresses));
  }
  std::ranges::copy(port->addresses, std::back_inserter(addresses));
  return addresses;
}

std::optional<IpAddress> main_address_of(const Topology& topology, std::string_view host) {
  const auto found = std::ranges::find(topology.hosts, host, &HostDescription::name);
  if (found == topology.hosts.end()) {
    return std::nullopt;
  }
  const auto position = static_cast<std::uint32_t>(found - topology.hosts.begin());
  return addresses_of(topology, position, 0).front().address;
}

Result<void> internal::check_address(const IpAddress& address) {
  const auto refuse = [&](std::string_view why) {
    return fail(ErrorCode::InvalidArgument, "{} is no address for a port: {}", to_string(address),
                why);
  };
  if (address.is_unspecified() || address.is_multicast() || address.is_limited_broadcast()) {
    return refuse("it is that of no single host");
  }
  if (address == IpAddress::v4(0x7F00'0001) || address == IpAddress::v6(0, 1)) {
    return refuse("it means every host itself");
  }
  if (address.unmapped() != address) {
    return refuse("give the IPv4 address itself");
  }
  if (is_by_position(address)) {
    return refuse("ports have 127.77.0.0 to 127.254.255.255 and fd77::/48 by their positions");
  }
  return {};
}

Result<void> internal::check_addresses(const Topology& topology) {
  std::map<IpAddress, EndPoint> owners;
  return for_each_given(
      topology, [&](const EndPoint& end, const InterfaceAddress& given) -> Result<void> {
        if (auto checked = check_address(given.address); !checked) {
          return fail(checked.error().code, "{}: {}", to_string(topology, end),
                      checked.error().reason);
        }
        if (given.prefix_bits > given.address.bits()) {
          return fail(ErrorCode::InvalidArgument, "{}: the prefix of {} has 0 to {} bits",
                      to_string(topology, end), to_string(given.address), given.address.bits());
        }
        auto [found, is_new] = owners.try_emplace(given.address, end);
        if (is_new && given.address.is_link_local() && given.address.is_v6()) {
          const auto owner = find_link_local(topology, given.address);
          is_new = !owner;
          found->second = owner.value_or(end);
        }
        if (!is_new) {
          return fail(ErrorCode::InvalidArgument, "{} and {} both have the address {}",
                      to_string(topology, found->second), to_string(topology, end),
                      to_string(given.address));
        }
        return {};
      });
}

}  // namespace weft::fabric
