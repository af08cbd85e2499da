#include "programs/vnic/addresses.h"

#include <cstdint>

namespace weft::programs::vnic {
namespace {

// Policy: beside those of ib0 (programs/net/addresses.h).
constexpr std::uint32_t kByPosition = 0x7F4D'0000;  // 127.77.0.0/16
constexpr std::uint32_t kIpv4 = 0x0A4E'0000;        // 10.78.0.0/16
constexpr std::uint64_t kUniqueLocalByPosition = 0xFD77'0000'0000'0000;
constexpr std::uint64_t kUniqueLocal = 0xFD77'016B'0000'0000;

[[nodiscard]] std::uint64_t half(const IpAddress& address, std::size_t first) {
  std::uint64_t value = 0;
  for (const std::byte octet : address.octets().subspan(first, 8)) {
    value = value << 8 | std::to_integer<std::uint64_t>(octet);
  }
  return value;
}

}  // namespace

Result<std::vector<InterfaceAddress>> opa0_addresses(std::span<const IpAddress> of_eth0) {
  std::vector<InterfaceAddress> addresses;
  for (const IpAddress& address : of_eth0) {
    if (address.is_v4() && address.v4_number() >> 16 == kByPosition >> 16) {
      addresses.push_back({IpAddress::v4(kIpv4 | (address.v4_number() & 0xFFFF)), 16});
    } else if (address.is_v6() && half(address, 0) == kUniqueLocalByPosition &&
               half(address, 8) >> 48 == 0) {
      addresses.push_back({IpAddress::v6(kUniqueLocal, half(address, 8)), 64});
    }
  }
  if (addresses.empty()) {
    return fail(ErrorCode::NotFound,
                "eth0 has neither 127.77.x.y nor fd77::n, from which addresses of opa0 follow: "
                "--address says which it is to have");
  }
  return addresses;
}

}  // namespace weft::programs::vnic
