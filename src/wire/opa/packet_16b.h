#pragma once

// Omni-Path packets of the format 16B (the kernel's hfi1 and opa_vnic drivers are the public source
// of the format): of any kind, and those that carry Ethernet frames for virtual NICs. In order: the
// link header of 16 octets, the header of what is carried, the frame without its FCS, 0 to 7 octets
// of padding, four octets of ICRC, one tail octet. Input is not trusted. Value types.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/identifiers.h"
#include "base/keys.h"
#include "base/result.h"
#include "wire/layout.h"
#include "wire/opa/little_endian.h"

namespace weft::wire {

inline constexpr std::uint8_t kOpaL2Type16b = 2;
/// L4 types of a 16B packet.
inline constexpr std::uint8_t kOpaL4Fm = 0x08;
inline constexpr std::uint8_t kOpaL4IbLocal = 0x09;
inline constexpr std::uint8_t kOpaL4IbGlobal = 0x0A;
inline constexpr std::uint8_t kOpaL4Ethernet = 0x78;

/// The 16B header with the L4 header of Ethernet behind it, as words h0 to h4.
struct Opa16bHeader {
  static constexpr std::string_view kName = "OPA 16B";

  bool becn{};
  std::uint16_t length_units{};  ///< of the whole packet, in units of 8 bytes; 11 bits
  Lid slid{};                    ///< 24 bits
  bool is_last_flit_type{true};  ///< LT, always set
  std::uint8_t l2_type{kOpaL2Type16b};
  bool fecn{};
  std::uint8_t routing_control{};  ///< RC, 3 bits
  std::uint8_t service_channel{};  ///< SC, 5 bits
  Lid dlid{};                      ///< 24 bits
  PKey pkey{};
  std::uint8_t l4_type{kOpaL4Ethernet};
  std::uint8_t age{};
  std::uint16_t entropy{};
  std::uint16_t vesw_id{};  ///< of the virtual switch; 12 bits are in use
  bool operator==(const Opa16bHeader&) const = default;

  // clang-format off
  using Wire = LittleEndianWords<20,
      Field<"BECN", 1, &Opa16bHeader::becn>,                      // h0
      Field<"Length", 11, &Opa16bHeader::length_units>,
      Part<"SLID[19:0]", 20, 0, &Opa16bHeader::slid>,
      Field<"LT", 1, &Opa16bHeader::is_last_flit_type>,           // h1
      Field<"L2", 2, &Opa16bHeader::l2_type>,
      Field<"FECN", 1, &Opa16bHeader::fecn>,
      Field<"RC", 3, &Opa16bHeader::routing_control>,
      Field<"SC", 5, &Opa16bHeader::service_channel>,
      Part<"DLID[19:0]", 20, 0, &Opa16bHeader::dlid>,
      Field<"P_Key", 16, &Opa16bHeader::pkey>,                    // h2
      Part<"DLID[23:20]", 4, 20, &Opa16bHeader::dlid>,
      Part<"SLID[23:20]", 4, 20, &Opa16bHeader::slid>,
      Field<"L4", 8, &Opa16bHeader::l4_type>,
      Reserved<8>,                                                // h3
      Field<"Age", 8, &Opa16bHeader::age>,
      Field<"Entropy", 16, &Opa16bHeader::entropy>,
      Field<"VeswID", 16, &Opa16bHeader::vesw_id>,                // h4
      Reserved<16>>;
  // clang-format on
};

/// The link header alone, words h0 to h3, which packets of every L4 type begin with.
inline constexpr std::size_t kOpaLinkHeaderBytes = 16;
inline constexpr std::size_t kOpaIcrcBytes = 4;
inline constexpr std::size_t kOpaTailBytes = 1;
inline constexpr std::size_t kOpaUnitBytes = 8;
inline constexpr std::size_t kMaxOpaUnits = 2047;          ///< 11 bits
inline constexpr std::size_t kMinEthernetFrameBytes = 60;  ///< without FCS (IEEE 802.3 §3.2.7)
/// The most that a packet can carry behind its link header.
inline constexpr std::size_t kMaxOpaContentBytes =
    kMaxOpaUnits * kOpaUnitBytes - kOpaLinkHeaderBytes - kOpaIcrcBytes - kOpaTailBytes;
/// The header of Ethernet: h4.
inline constexpr std::size_t kOpaEthernetHeaderBytes = kSizeOf<Opa16bHeader> - kOpaLinkHeaderBytes;
/// The longest frame that a packet can carry.
inline constexpr std::size_t kMaxOpaFrameBytes = kMaxOpaContentBytes - kOpaEthernetHeaderBytes;

/// A received packet of any L4 type. `content` is what is between link header and padding, and
/// views the packet's octets. Only of Ethernet has `header` a virtual switch.
struct Opa16bPacket {
  Opa16bHeader header{};
  ByteSpan content{};
  std::size_t pad_bytes{};
  std::uint32_t icrc{};           ///< the octets as they came, as a big-endian number
  std::uint32_t expected_icrc{};  ///< likewise

  [[nodiscard]] bool has_valid_icrc() const { return icrc == expected_icrc; }
};

/// A received packet. `frame` views the packet's octets.
struct OpaEthernetPacket {
  Opa16bHeader header{};
  ByteSpan frame{};
  bool has_valid_icrc{};
};

/// The packet whose link header is that of `header`, with its length set here, and with `content`
/// and then `more` behind it: at most kMaxOpaContentBytes together (asserted).
[[nodiscard]] std::vector<std::byte> to_opa_16b(Opa16bHeader header, ByteSpan content,
                                                ByteSpan more = {});

/// Fails for what is too short or no 16B packet, and for a length field that is not that of the
/// packet.
[[nodiscard]] Result<Opa16bPacket> parse_opa_16b(ByteSpan packet);

/// The packet with this header (whose length is set here) and frame, which is at most
/// kMaxOpaFrameBytes long (asserted).
[[nodiscard]] std::vector<std::byte> to_opa_packet(Opa16bHeader header, ByteSpan frame);

/// Fails as parse_opa_16b(), and for another L4 type than Ethernet.
[[nodiscard]] Result<OpaEthernetPacket> parse_opa_ethernet(ByteSpan packet);

/// The virtual switch of a packet that parse_opa_ethernet() may refuse; for counting.
[[nodiscard]] std::optional<std::uint16_t> vesw_id_of(ByteSpan packet);

}  // namespace weft::wire
