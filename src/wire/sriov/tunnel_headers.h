#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/identifiers.h"
#include "base/keys.h"
#include "wire/grh.h"
#include "wire/layout.h"
#include "wire/mad/mad.h"

/// Headers of MADs in a tunnel between a virtual function's proxy QP and the tunnel QP of the
/// physical function, as mlx4 lays them out. They never leave the host. Fields for Ethernet ports
/// (VLAN, MAC) are zero on InfiniBand.
namespace weft::wire {

/// Both QPs of a tunnel have a Q_Key of their own, which mlx4 counts from here in the order of the
/// QPs' numbers.
inline constexpr std::uint32_t kFirstTunnelQKey = 0xFFFF'0000;

/// Address vector of a tunnelled MAD's destination on the wire (struct mlx4_av).
struct TunnelAddressVector {
  static constexpr std::string_view kName = "tunnel address vector";

  PortNumber port{};
  std::uint32_t pd{};
  bool is_global{};  ///< the fields from `gid_index` to `dgid` without the static rate are valid
  std::uint8_t source_path_bits{};
  Lid dlid{};
  std::uint8_t gid_index{};  ///< in the function's own GID table, which has one entry
  std::uint8_t static_rate{};
  std::uint8_t hop_limit{};
  ServiceLevel sl{};
  std::uint8_t traffic_class{};
  std::uint32_t flow_label{};
  Gid dgid{};
  bool operator==(const TunnelAddressVector&) const = default;

  // clang-format off
  using Wire = Layout<32,
      Reserved<6>,
      Field<"Port", 2, &TunnelAddressVector::port>,
      Field<"PD", 24, &TunnelAddressVector::pd>,
      Reserved<8>,
      Field<"G", 1, &TunnelAddressVector::is_global>,
      Field<"SourcePathBits", 7, &TunnelAddressVector::source_path_bits>,
      Field<"DLID", 16, &TunnelAddressVector::dlid>,
      Reserved<8>,
      Field<"GIDIndex", 8, &TunnelAddressVector::gid_index>,
      Field<"StaticRate", 8, &TunnelAddressVector::static_rate>,
      Field<"HopLimit", 8, &TunnelAddressVector::hop_limit>,
      Field<"SL", 4, &TunnelAddressVector::sl>,
      Field<"TClass", 8, &TunnelAddressVector::traffic_class>,
      Field<"FlowLabel", 20, &TunnelAddressVector::flow_label>,
      Octets<"DGID", 16, &TunnelAddressVector::dgid>>;
  // clang-format on
};

/// Precedes a MAD from a virtual function to the physical one: where it is to go on the wire.
struct TunnelSendHeader {
  static constexpr std::string_view kName = "tunnel send header";

  TunnelAddressVector address{};
  Qpn remote_qpn{};
  QKey qkey{};
  std::uint16_t vlan{};
  std::uint64_t mac{};
  std::uint16_t pkey_index{};  ///< in the function's own P_Key table
  bool operator==(const TunnelSendHeader&) const = default;

  // clang-format off
  using Wire = Layout<56,
      Nested<&TunnelSendHeader::address>,
      Reserved<8>,
      Field<"RemoteQPN", 24, &TunnelSendHeader::remote_qpn>,
      Field<"Q_Key", 32, &TunnelSendHeader::qkey>,
      Field<"VLAN", 16, &TunnelSendHeader::vlan>,
      Field<"MAC", 48, &TunnelSendHeader::mac>,
      Field<"P_KeyIndex", 16, &TunnelSendHeader::pkey_index>,
      Reserved<48>>;
  // clang-format on
};

/// Precedes GRH and MAD from the physical function to a virtual one: whence it came.
struct TunnelReceiveHeader {
  static constexpr std::string_view kName = "tunnel receive header";

  std::uint8_t flags{};
  Qpn source_qpn{};
  bool is_global{};  ///< the GRH behind this header is valid
  std::uint8_t path_bits{};
  std::uint16_t pkey_index{};  ///< in the function's own P_Key table
  ServiceLevel sl{};
  std::uint16_t vlan{};  // 12 bits
  Lid slid{};            ///< on Ethernet bits 47 to 32 of the MAC
  std::uint32_t mac_low{};
  bool operator==(const TunnelReceiveHeader&) const = default;

  // clang-format off
  using Wire = Layout<16,
      Field<"Flags", 8, &TunnelReceiveHeader::flags>,
      Field<"SourceQPN", 24, &TunnelReceiveHeader::source_qpn>,
      Field<"G", 1, &TunnelReceiveHeader::is_global>,
      Field<"PathBits", 7, &TunnelReceiveHeader::path_bits>,
      Reserved<8>,
      Field<"P_KeyIndex", 16, &TunnelReceiveHeader::pkey_index>,
      Field<"SL", 4, &TunnelReceiveHeader::sl>,
      Field<"VLAN", 12, &TunnelReceiveHeader::vlan>,
      Field<"SLID", 16, &TunnelReceiveHeader::slid>,
      Field<"MACLow", 32, &TunnelReceiveHeader::mac_low>>;
  // clang-format on
};

/// What a ring of a tunnel carries: a header and what it precedes. Both directions fill 312 bytes.
struct TunnelSend {
  static constexpr std::string_view kName = "tunnelled send";

  TunnelSendHeader header{};
  std::array<std::byte, kMadBytes> mad{};
  bool operator==(const TunnelSend&) const = default;

  // clang-format off
  using Wire = Layout<312,
      Nested<&TunnelSend::header>,
      Octets<"MAD", kMadBytes, &TunnelSend::mad>>;
  // clang-format on
};

struct TunnelReceive {
  static constexpr std::string_view kName = "tunnelled receive";

  TunnelReceiveHeader header{};
  Grh grh{};
  std::array<std::byte, kMadBytes> mad{};
  bool operator==(const TunnelReceive&) const = default;

  // clang-format off
  using Wire = Layout<312,
      Nested<&TunnelReceive::header>,
      Nested<&TunnelReceive::grh>,
      Octets<"MAD", kMadBytes, &TunnelReceive::mad>>;
  // clang-format on
};

}  // namespace weft::wire
