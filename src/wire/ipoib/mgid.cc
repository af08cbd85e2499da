#include "wire/ipoib/mgid.h"

#include <algorithm>
#include <array>

namespace weft::wire {
namespace {

constexpr std::uint64_t kIpv4Signature = 0x401B;
constexpr std::uint64_t kIpv6Signature = 0x601B;

/// Upper half of the MGID: prefix, transient flag, scope, signature, P_Key with full membership.
[[nodiscard]] std::uint64_t upper_half(std::uint8_t scope, std::uint64_t signature, PKey pkey) {
  constexpr std::uint64_t kTransient = 0xFF10;
  constexpr std::uint16_t kFullMember = 0x8000;
  return (kTransient | (scope & 0xFU)) << 48 | signature << 32 |
         std::uint64_t{static_cast<std::uint16_t>(pkey.base() | kFullMember)} << 16;
}

}  // namespace

Gid ipoib_group(const IpAddress& group, PKey pkey, std::uint8_t scope) {
  if (group.is_v4()) {
    constexpr std::uint32_t kGroupBits = 0x0FFF'FFFF;
    const std::uint32_t bits =
        group.is_limited_broadcast() ? 0xFFFF'FFFF : group.v4_number() & kGroupBits;
    return Gid{upper_half(scope, kIpv4Signature, pkey), Guid{bits}};
  }
  constexpr std::size_t kGroupBytes = 10;
  std::array<std::byte, Gid::kSize> octets =
      Gid{upper_half(scope, kIpv6Signature, pkey), Guid{}}.octets();
  std::ranges::copy(group.octets().last(kGroupBytes), octets.end() - kGroupBytes);
  return Gid{octets};
}

Gid ipoib_broadcast_group(PKey pkey, std::uint8_t scope) {
  return ipoib_group(IpAddress::v4(0xFFFF'FFFF), pkey, scope);
}

IpAddress solicited_node_group(const IpAddress& address) {
  constexpr std::uint64_t kBits = 0xFF'FFFF;
  const Gid octets{address.v6_octets()};
  return IpAddress::v6(0xFF02'0000'0000'0000,
                       0x0000'0001'FF00'0000 | (octets.interface_id().value() & kBits));
}

IpAddress all_nodes_group() { return IpAddress::v6(0xFF02'0000'0000'0000, 1); }

}  // namespace weft::wire
