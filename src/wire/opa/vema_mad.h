#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/identifiers.h"
#include "base/keys.h"
#include "wire/layout.h"
#include "wire/mad/mad.h"
#include "wire/mad/rmpp.h"
#include "wire/opa/mac_messages.h"

/// MADs between an Ethernet Manager and the agents (VEMA) of virtual NICs: of Omni-Path's own base
/// version, with 2048 octets.
namespace weft::wire {

inline constexpr std::uint8_t kOpaMadVersion = 0x80;  ///< base and class version
inline constexpr ManagementClass kVemaClass{0x34};    ///< OPA_MGMT_CLASS_INTEL_EMA
inline constexpr std::uint32_t kVemaOui = 0x00'066A;
inline constexpr std::size_t kOpaMadBytes = 2048;

/// Attributes of VEMA; ClassPortInfo and Notice have their usual numbers.
enum class VemaAttribute : std::uint16_t {
  ClassPortInfo = kAttributeClassPortInfo,
  Notice = kAttributeNotice,
  VeswPortInfo = 0x0011,
  MacTable = 0x0012,
  UnicastMacs = 0x0013,
  MulticastMacs = 0x0014,
  DeleteVesw = 0x0015,
  SummaryCounters = 0x0020,
  ErrorCounters = 0x0022,
};

/// A MAD of VEMA (opa_vnic_vema_mad). The attribute modifier has the number of the virtual port.
struct VemaMad {
  static constexpr std::string_view kName = "VEMA MAD";

  MadHeader header{};
  Rmpp rmpp{};
  std::uint32_t oui{kVemaOui};
  std::array<std::byte, kVemaDataBytes> data{};
  bool operator==(const VemaMad&) const = default;

  [[nodiscard]] constexpr VemaAttribute attribute() const {
    return VemaAttribute{header.attribute_id};
  }
  [[nodiscard]] constexpr std::uint8_t vport() const {
    return static_cast<std::uint8_t>(header.attribute_modifier);
  }

  // clang-format off
  using Wire = Layout<kOpaMadBytes,
      Nested<&VemaMad::header>,
      Nested<&VemaMad::rmpp>,
      Reserved<8>,
      Field<"OUI", 24, &VemaMad::oui>,
      Octets<"Data", 2008, &VemaMad::data>>;
  // clang-format on
};

/// What happened, in a trap.
enum class VemaEvent : std::uint8_t {
  UnicastMacsChanged = 1,
  MulticastMacsChanged = 2,
  LinkStatusChanged = 3,
};

/// opa_veswport_trap: the details of VEMA's notices.
struct VeswPortTrap {
  static constexpr std::string_view kName = "OPA VeswPort trap";

  std::uint16_t fabric_id{};  ///< 10 bits are in use
  std::uint16_t vesw_id{};    ///< 12 bits are in use
  std::uint32_t port_number{};
  std::uint16_t opa_port{};
  std::uint8_t port_index{};  ///< of the virtual port on the OPA port, from 0
  VemaEvent event{};
  bool operator==(const VeswPortTrap&) const = default;

  // clang-format off
  using Wire = Layout<16,
      Field<"FabricID", 16, &VeswPortTrap::fabric_id>,
      Field<"VeswID", 16, &VeswPortTrap::vesw_id>,
      Field<"PortNumber", 32, &VeswPortTrap::port_number>,
      Field<"OPAPort", 16, &VeswPortTrap::opa_port>,
      Field<"VeswPortIndex", 8, &VeswPortTrap::port_index>,
      Field<"Opcode", 8, &VeswPortTrap::event>,
      Reserved<32>>;
  // clang-format on
};

/// opa_vnic_notice_attr: in another order than InfiniBand's Notice, and longer.
struct VemaNotice {
  static constexpr std::string_view kName = "VEMA Notice";
  static constexpr std::uint8_t kInformational = 4;

  bool is_generic{};
  std::uint8_t type{kInformational};
  std::uint32_t oui{kVemaOui};
  std::uint16_t trap_number{};
  bool toggle{};
  std::uint16_t count{};
  std::uint32_t issuer_lid{};
  Gid issuer_gid{};  ///< of a Report only
  VeswPortTrap trap{};
  std::array<std::byte, 48> rest{};  ///< of the details
  bool operator==(const VemaNotice&) const = default;

  // clang-format off
  using Wire = Layout<96,
      Field<"Type", 7, &VemaNotice::type>,
      Field<"IsGeneric", 1, &VemaNotice::is_generic>,
      Field<"OUI", 24, &VemaNotice::oui>,
      Field<"TrapNumber", 16, &VemaNotice::trap_number>,
      Field<"NoticeToggle", 1, &VemaNotice::toggle>,
      Field<"NoticeCount", 15, &VemaNotice::count>,
      Field<"IssuerLID", 32, &VemaNotice::issuer_lid>,
      Reserved<32>,
      Octets<"IssuerGID", 16, &VemaNotice::issuer_gid>,
      Nested<&VemaNotice::trap>,
      Octets<"Rest", 48, &VemaNotice::rest>>;
  // clang-format on
};

/// Omni-Path's ClassPortInfo (opa_class_port_info): x
struct OpaClassPortInfo {
  static constexpr std::string_view kName = "OPA ClassPortInfo";
  static constexpr std::uint16_t kSendsTraps = 1;

  std::uint8_t base_version{kOpaMadVersion};
  std::uint8_t class_version{kOpaMadVersion};
  std::uint16_t capability_mask{};  ///< VEMA: bits 15:8 are the number of virtual ports
  std::uint32_t capability_mask2{};
  std::uint8_t resp_time_value{};  ///< exponent, as TimeoutExponent
  Gid redirect_gid{};
  std::uint8_t redirect_tclass{};
  std::uint8_t reserved0{};
  std::uint32_t redirect_flow_label{};
  std::uint32_t redirect_lid{};
  std::uint8_t redirect_sl{};
  std::uint8_t reserved1{};
  Qpn redirect_qp{};
  QKey redirect_qkey{};
  Gid trap_gid{};
  std::uint8_t trap_tclass{};
  std::uint8_t reserved2{};
  std::uint32_t trap_flow_label{};
  std::uint32_t trap_lid{};
  std::uint8_t trap_hop_limit{};
  Qpn trap_qp{};
  QKey trap_qkey{};
  PKey trap_pkey{};
  PKey redirect_pkey{};
  std::uint8_t trap_sl{};
  std::uint32_t reserved3{};
  bool operator==(const OpaClassPortInfo&) const = default;

  // clang-format off
  using Wire = Layout<80,
      Field<"BaseVersion", 8, &OpaClassPortInfo::base_version>,
      Field<"ClassVersion", 8, &OpaClassPortInfo::class_version>,
      Field<"CapabilityMask", 16, &OpaClassPortInfo::capability_mask>,
      Field<"CapabilityMask2", 27, &OpaClassPortInfo::capability_mask2>,
      Field<"RespTimeValue", 5, &OpaClassPortInfo::resp_time_value>,
      Octets<"RedirectGID", 16, &OpaClassPortInfo::redirect_gid>,
      Field<"RedirectTC", 8, &OpaClassPortInfo::redirect_tclass>,
      Field<"Reserved0", 4, &OpaClassPortInfo::reserved0>,
      Field<"RedirectFL", 20, &OpaClassPortInfo::redirect_flow_label>,
      Field<"RedirectLID", 32, &OpaClassPortInfo::redirect_lid>,
      Field<"RedirectSL", 5, &OpaClassPortInfo::redirect_sl>,
      Field<"Reserved1", 3, &OpaClassPortInfo::reserved1>,
      Field<"RedirectQP", 24, &OpaClassPortInfo::redirect_qp>,
      Field<"RedirectQ_Key", 32, &OpaClassPortInfo::redirect_qkey>,
      Octets<"TrapGID", 16, &OpaClassPortInfo::trap_gid>,
      Field<"TrapTC", 8, &OpaClassPortInfo::trap_tclass>,
      Field<"Reserved2", 4, &OpaClassPortInfo::reserved2>,
      Field<"TrapFL", 20, &OpaClassPortInfo::trap_flow_label>,
      Field<"TrapLID", 32, &OpaClassPortInfo::trap_lid>,
      Field<"TrapHL", 8, &OpaClassPortInfo::trap_hop_limit>,
      Field<"TrapQP", 24, &OpaClassPortInfo::trap_qp>,
      Field<"TrapQ_Key", 32, &OpaClassPortInfo::trap_qkey>,
      Field<"TrapP_Key", 16, &OpaClassPortInfo::trap_pkey>,
      Field<"RedirectP_Key", 16, &OpaClassPortInfo::redirect_pkey>,
      Field<"TrapSL", 5, &OpaClassPortInfo::trap_sl>,
      Field<"Reserved3", 27, &OpaClassPortInfo::reserved3>>;
  // clang-format on
};

}  // namespace weft::wire
