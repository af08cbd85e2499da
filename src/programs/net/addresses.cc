#include "programs/net/addresses.h"

#include <algorithm>

namespace weft::programs::net {
namespace {

constexpr std::uint32_t kByPosition = 0x7F4D'0000;  // 127.77.0.0/16
constexpr std::uint64_t kUniqueLocalByPosition = 0xFD77'0000'0000'0000;
constexpr std::uint64_t kLinkLocal = 0xFE80'0000'0000'0000;
constexpr std::uint64_t kUniversal = 0x0200'0000'0000'0000;

// Policy: 1b is in the signature of IPoIB's groups, too (RFC 4391 §4).
constexpr std::uint32_t kIb0 = 10U << 8 | 77;  // 10.77.0.0/16
constexpr std::uint64_t kUniqueLocalOfIb = 0xFD77'001B'0000'0000;

[[nodiscard]] AddressPrefixes prefixes_of(std::uint32_t port_of_host) {
  const std::uint32_t number = std::min<std::uint32_t>(port_of_host, 0xFF - (kIb0 & 0xFF));
  return {.interface = "an IPoIB interface",
          .ipv4 = (kIb0 + number) << 16,
          .unique_local = kUniqueLocalOfIb | std::uint64_t{number} << 16};
}

[[nodiscard]] std::uint64_t half(const IpAddress& address, std::size_t first) {
  std::uint64_t value = 0;
  for (const std::byte octet : address.octets().subspan(first, 8)) {
    value = value << 8 | std::to_integer<std::uint64_t>(octet);
  }
  return value;
}

}  // namespace

Result<std::vector<InterfaceAddress>> addresses_by_position(const AddressPrefixes& prefixes,
                                                            std::span<const IpAddress> of_eth0) {
  std::vector<InterfaceAddress> addresses;
  for (const IpAddress& address : of_eth0) {
    if (prefixes.ipv4 != 0 && address.is_v4() && address.v4_number() >> 16 == kByPosition >> 16) {
      addresses.push_back({IpAddress::v4(prefixes.ipv4 | (address.v4_number() & 0xFFFF)), 16});
    } else if (address.is_v6() && half(address, 0) == kUniqueLocalByPosition &&
               half(address, 8) >> 48 == 0) {
      addresses.push_back({IpAddress::v6(prefixes.unique_local, half(address, 8)), 64});
    }
  }
  if (addresses.empty()) {
    return fail(ErrorCode::NotFound,
                "eth0 has neither 127.77.x.y nor fd77::n, from which addresses of {} follow: "
                "--address says which it is to have",
                prefixes.interface);
  }
  return addresses;
}

Result<std::vector<InterfaceAddress>> parse_interface_addresses(
    std::span<const std::string> texts) {
  std::vector<InterfaceAddress> addresses;
  for (const std::string& text : texts) {
    const auto address = parse_interface_address(text);
    if (!address) {
      return std::unexpected(address.error());
    }
    addresses.push_back(*address);
  }
  return addresses;
}

Result<std::vector<InterfaceAddress>> child_addresses(std::uint32_t port_of_host, PKey pkey,
                                                      std::span<const IpAddress> of_eth0) {
  AddressPrefixes prefixes = prefixes_of(port_of_host);
  prefixes.ipv4 = 0;
  prefixes.unique_local |= pkey.value();
  return addresses_by_position(prefixes, of_eth0);
}

Result<std::vector<InterfaceAddress>> ib_addresses(std::uint32_t port_of_host,
                                                   std::span<const IpAddress> of_eth0) {
  return addresses_by_position(prefixes_of(port_of_host), of_eth0);
}

InterfaceAddress link_local_address(Guid port_guid) {
  return {IpAddress::v6(kLinkLocal, port_guid.value() | kUniversal), 64};
}

bool has_tentative_address(std::istream& if_inet6, std::string_view interface) {
  // Linux net/ipv6/addrconf.c, if6_seq_show(): hexadecimal but for the name. IFA_F_TENTATIVE of
  // <linux/if_addr.h> is among the low bits, which are all that it shows.
  constexpr unsigned kTentative = 0x40;
  std::string address;
  std::string name;
  unsigned index = 0;
  unsigned prefix_bits = 0;
  unsigned scope = 0;
  unsigned flags = 0;
  if_inet6 >> std::hex;
  while (if_inet6 >> address >> index >> prefix_bits >> scope >> flags >> name) {
    if (name == interface && (flags & kTentative) != 0) {
      return true;
    }
  }
  return false;
}

}  // namespace weft::programs::net
