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

/// Headers of a UD packet as a driver builds and reads them: ib_ud_header_init, ib_ud_header_pack
/// and ib_ud_header_unpack of the kernel (R-UD-1 to R-UD-3). Whole packets with payload and CRCs
/// are wire/ib_packet.h and wire/roce_packet.h.
namespace weft::wire {

inline constexpr std::uint16_t kEtherTypeRoceV1 = 0x8915;  // IBTA annex A16 §A16.2

/// Which headers a UD packet has before its BTH and DETH.
struct UdHeaderParts {
  bool lrh{};
  bool ethernet{};
  bool vlan{};
  bool grh{};
  unsigned ip_version{};  ///< 0 none, 4, 6; one of both takes the place of the GRH
  bool udp{};             ///< with IP only
  bool immediate{};
};

struct UdHeader {
  std::optional<Lrh> lrh;
  std::optional<Ethernet> ethernet;
  std::optional<Vlan> vlan;
  std::optional<Grh> grh;  ///< GRH, or the IPv6 header, whose layout it has
  std::optional<Ipv4> ipv4;
  std::optional<Udp> udp;
  Bth bth;
  Deth deth;
  std::optional<ImmDt> immediate;

  bool operator==(const UdHeader&) const = default;
};

/// A header with those parts and all that follows from them and from `payload_bytes`: lengths, next
/// headers, EtherTypes, opcode and pad count. The rest is zero, for the caller to fill. Refuses an
/// IP version that is none, and UDP without IP.
[[nodiscard]] Result<UdHeader> make_ud_header(std::size_t payload_bytes,
                                              const UdHeaderParts& parts);

[[nodiscard]] std::size_t packed_bytes(const UdHeader& header);

/// Writes the wire format and returns its number of bytes; `out` must hold packed_bytes(). An IPv4
/// checksum is made when there is none.
std::size_t pack(const UdHeader& header, MutableByteSpan out);

/// Reads headers that begin with an LRH. Refuses another link, IP or transport version, next
/// headers that are no UD packet's, other opcodes, and too few bytes.
[[nodiscard]] Result<UdHeader> unpack_ud_header(ByteSpan bytes);

/// Reads headers that begin with Ethernet: RoCE v1, or v2 over IPv4 or IPv6.
[[nodiscard]] Result<UdHeader> unpack_ud_frame(ByteSpan bytes);

}  // namespace weft::wire
