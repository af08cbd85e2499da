#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/identifiers.h"
#include "base/keys.h"
#include "wire/layout.h"
#include "wire/layout_array.h"
#include "wire/mac_address.h"

/// VeswPortInfo, the attribute by which an Ethernet Manager sets up a port of a virtual Ethernet
/// switch. Reserved fields are named, since an agent has to return them as they came (R-VN-8).
namespace weft::wire {

inline constexpr std::size_t kMaxDefaultPorts = 16;  ///< OPA_VESW_MAX_NUM_DEF_PORT
inline constexpr std::size_t kPriorities = 8;        ///< OPA_VNIC_MAX_NUM_PCP

/// What all ports of a virtual switch have in common (opa_vesw_info).
struct VeswInfo {
  static constexpr std::string_view kName = "OPA VeswInfo";

  std::uint16_t fabric_id{};  ///< 10 bits are in use
  std::uint16_t vesw_id{};    ///< 12 bits are in use
  std::array<std::byte, 6> reserved0{};
  std::uint16_t default_port_mask{};  ///< which of the unicast DLIDs are in use
  std::array<std::byte, 2> reserved1{};
  std::uint16_t pkey{};
  std::array<std::byte, 4> reserved2{};
  std::uint32_t multicast_dlid{};  ///< where multicast and broadcast frames go
  /// Where unicast frames go whose address is unknown.
  std::array<std::uint32_t, kMaxDefaultPorts> unicast_dlids{};
  std::uint32_t routing_control{};  ///< 3 bits for each kind of packet, R-VN-16
  std::array<std::byte, 56> reserved3{};
  std::uint16_t eth_mtu{};
  std::array<std::byte, 2> reserved4{};
  bool operator==(const VeswInfo&) const = default;

  // clang-format off
  using Wire = Layout<152,
      Field<"FabricID", 16, &VeswInfo::fabric_id>,
      Field<"VeswID", 16, &VeswInfo::vesw_id>,
      Octets<"Reserved0", 6, &VeswInfo::reserved0>,
      Field<"DefaultPortMask", 16, &VeswInfo::default_port_mask>,
      Octets<"Reserved1", 2, &VeswInfo::reserved1>,
      Field<"P_Key", 16, &VeswInfo::pkey>,
      Octets<"Reserved2", 4, &VeswInfo::reserved2>,
      Field<"MulticastDLID", 32, &VeswInfo::multicast_dlid>,
      Numbers<"UnicastDLID", 32, 16, &VeswInfo::unicast_dlids>,
      Field<"RoutingControl", 32, &VeswInfo::routing_control>,
      Octets<"Reserved3", 56, &VeswInfo::reserved3>,
      Field<"EthMTU", 16, &VeswInfo::eth_mtu>,
      Octets<"Reserved4", 2, &VeswInfo::reserved4>>;
  // clang-format on
};

/// What a port may do, and does. Other values are legal bits with no meaning.
enum class VeswPortState : std::uint8_t { DropAll = 1, Forwarding = 3 };
enum class EthLinkStatus : std::uint8_t { None = 0, Up = 1, Down = 2 };

/// What is of one port (opa_per_veswport_info). A Set does not change what is read-only.
struct PerVeswPortInfo {
  static constexpr std::string_view kName = "OPA PerVeswPortInfo";

  std::uint32_t port_number{};      ///< on the virtual switch
  EthLinkStatus eth_link_status{};  ///< read-only
  std::array<std::byte, 3> reserved0{};
  MacAddress base_mac{};
  VeswPortState config_state{};
  VeswPortState oper_state{};              ///< read-only
  std::uint16_t max_mac_entries{};         ///< read-only
  std::uint16_t max_source_mac_entries{};  ///< read-only
  std::uint32_t mac_table_digest{};        ///< read-only here: the MAC table's attribute sets it
  std::array<std::byte, 4> reserved1{};
  std::uint32_t encap_slid{};  ///< SLID of packets
  std::array<std::uint8_t, kPriorities> unicast_sc{};
  std::array<std::uint8_t, kPriorities> unicast_vl{};
  std::array<std::uint8_t, kPriorities> multicast_sc{};
  std::array<std::uint8_t, kPriorities> multicast_vl{};
  std::uint8_t untagged_unicast_sc{};
  std::uint8_t untagged_unicast_vl{};
  std::uint8_t untagged_multicast_sc{};
  std::uint8_t untagged_multicast_vl{};
  std::array<std::byte, 48> reserved2{};
  std::uint16_t unicast_generation{};    ///< read-only; of the list of unicast MACs
  std::uint16_t multicast_generation{};  ///< read-only
  std::array<std::byte, 8> reserved3{};
  bool operator==(const PerVeswPortInfo&) const = default;

  // clang-format off
  using Wire = Layout<128,
      Field<"PortNumber", 32, &PerVeswPortInfo::port_number>,
      Field<"EthLinkStatus", 8, &PerVeswPortInfo::eth_link_status>,
      Octets<"Reserved0", 3, &PerVeswPortInfo::reserved0>,
      Octets<"BaseMAC", 6, &PerVeswPortInfo::base_mac>,
      Field<"ConfigState", 8, &PerVeswPortInfo::config_state>,
      Field<"OperState", 8, &PerVeswPortInfo::oper_state>,
      Field<"MaxMACEntries", 16, &PerVeswPortInfo::max_mac_entries>,
      Field<"MaxSourceMACEntries", 16, &PerVeswPortInfo::max_source_mac_entries>,
      Field<"MACTableDigest", 32, &PerVeswPortInfo::mac_table_digest>,
      Octets<"Reserved1", 4, &PerVeswPortInfo::reserved1>,
      Field<"EncapSLID", 32, &PerVeswPortInfo::encap_slid>,
      Numbers<"PCPtoSCUnicast", 8, 8, &PerVeswPortInfo::unicast_sc>,
      Numbers<"PCPtoVLUnicast", 8, 8, &PerVeswPortInfo::unicast_vl>,
      Numbers<"PCPtoSCMulticast", 8, 8, &PerVeswPortInfo::multicast_sc>,
      Numbers<"PCPtoVLMulticast", 8, 8, &PerVeswPortInfo::multicast_vl>,
      Field<"UntaggedSCUnicast", 8, &PerVeswPortInfo::untagged_unicast_sc>,
      Field<"UntaggedVLUnicast", 8, &PerVeswPortInfo::untagged_unicast_vl>,
      Field<"UntaggedSCMulticast", 8, &PerVeswPortInfo::untagged_multicast_sc>,
      Field<"UntaggedVLMulticast", 8, &PerVeswPortInfo::untagged_multicast_vl>,
      Octets<"Reserved2", 48, &PerVeswPortInfo::reserved2>,
      Field<"UnicastGeneration", 16, &PerVeswPortInfo::unicast_generation>,
      Field<"MulticastGeneration", 16, &PerVeswPortInfo::multicast_generation>,
      Octets<"Reserved3", 8, &PerVeswPortInfo::reserved3>>;
  // clang-format on
};

/// The attribute (opa_veswport_info).
struct VeswPortInfo {
  static constexpr std::string_view kName = "OPA VeswPortInfo";

  VeswInfo vesw{};
  PerVeswPortInfo port{};
  bool operator==(const VeswPortInfo&) const = default;

  // clang-format off
  using Wire = Layout<280,
      Nested<&VeswPortInfo::vesw>,
      Nested<&VeswPortInfo::port>>;
  // clang-format on
};

}  // namespace weft::wire
