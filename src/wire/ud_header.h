#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/result.h"
#include "wire/bth.h"
#include "wire/deth.h"
#include "wire/ethernet.h"
#include "wire/grh.h"
#include "wire/immdt.h"
#include "wire/ipv4.h"
#include "wire/lrh.h"
#include "wire/udp.h"
#include "wire/vlan.h"

/// Headers of a UD packet as a driver handles them: equivalents of the kernel's ib_ud_header_init,
/// ib_ud_header_pack and ib_ud_header_unpack (R-UD-1 to R-UD-3). For packets with payload and CRCs
/// see wire/ib_packet.h and wire/roce_packet.h.
namespace weft::wire {

inline constexpr std::uint16_t kEtherTypeRoceV1 = 0x8915;  // IBTA annex A16 §A16.2

/// Which headers precede the BTH and DETH.
struct UdHeaderParts {
  bool lrh{};
  bool ethernet{};
  bool vlan{};
  bool grh{};
  unsigned ip_version{};  ///< 0 (none), 4 or 6; an IP header takes the place of the GRH
  bool udp{};             ///< requires IP
  bool immediate{};
};

struct UdHeader {
  std::optional<Lrh> lrh;
  std::optional<Ethernet> ethernet;
  std::optional<Vlan> vlan;
  std::optional<Grh> grh;  ///< GRH, or an IPv6 header, which has the same layout
  std::optional<Ipv4> ipv4;
  std::optional<Udp> udp;
  Bth bth;
  Deth deth;
  std::optional<ImmDt> immediate;

  bool operator==(const UdHeader&) const = default;
};

/// Headers of the given kinds, with all derived fields set: lengths, next headers, EtherTypes,
/// opcode and pad count. The rest is zero, to be filled in by the caller. Fails for an invalid IP
/// version, and for UDP without IP.
[[nodiscard]] Result<UdHeader> make_ud_header(std::size_t payload_bytes,
                                              const UdHeaderParts& parts);

[[nodiscard]] std::size_t packed_bytes(const UdHeader& header);

/// Packs the headers and returns their length in bytes; `out` must hold packed_bytes(). Computes an
/// IPv4 checksum that is zero.
std::size_t pack(const UdHeader& header, MutableByteSpan out);

/// Unpacks headers that start with an LRH. Fails for other link, IP or transport versions, next
/// headers and opcodes that do not belong to a UD packet, and too few bytes.
[[nodiscard]] Result<UdHeader> unpack_ud_header(ByteSpan bytes);

/// Unpacks headers that start with Ethernet: RoCE v1, or v2 over IPv4 or IPv6.
[[nodiscard]] Result<UdHeader> unpack_ud_frame(ByteSpan bytes);

}  // namespace weft::wire
