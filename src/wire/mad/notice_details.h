#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/identifiers.h"
#include "base/keys.h"
#include "wire/layout.h"
#include "wire/mad/notice.h"

/// DataDetails of Notice, for each generic trap of subnet management (IBTA vol 1 §14.2.5.1).
namespace weft::wire {

/// Traps 64 to 67: a port or multicast group appeared or disappeared.
struct GidNoticeDetails {
  static constexpr std::string_view kName = "GID trap details";

  Gid gid{};
  bool operator==(const GidNoticeDetails&) const = default;

  // clang-format off
  using Wire = Layout<54,
      Reserved<48>,
      Octets<"GIDADDR", 16, &GidNoticeDetails::gid>,
      Reserved<256>>;
  // clang-format on
};

/// Trap 128: a port of the switch changed state.
struct LinkStateNoticeDetails {
  static constexpr std::string_view kName = "Link state trap details";

  Lid switch_lid{};
  bool operator==(const LinkStateNoticeDetails&) const = default;

  // clang-format off
  using Wire = Layout<54,
      Field<"LIDADDR", 16, &LinkStateNoticeDetails::switch_lid>,
      Reserved<416>>;
  // clang-format on
};

/// Traps 129 to 131: an error counter of a port reached its threshold.
struct PortNoticeDetails {
  static constexpr std::string_view kName = "Port trap details";

  Lid lid{};
  PortNumber port{};
  bool operator==(const PortNoticeDetails&) const = default;

  // clang-format off
  using Wire = Layout<54,
      Reserved<16>,
      Field<"LIDADDR", 16, &PortNoticeDetails::lid>,
      Field<"PORTNO", 8, &PortNoticeDetails::port>,
      Reserved<392>>;
  // clang-format on
};

/// Trap 144: CapabilityMask or another local attribute changed.
struct CapabilityNoticeDetails {
  static constexpr std::string_view kName = "Capability trap details";

  Lid lid{};
  bool other_local_changes{};  ///< then the flags are valid
  std::uint32_t capability_mask{};
  bool capability_mask2_change{};
  bool hierarchy_info_change{};
  bool sm_priority_change{};
  bool link_speed_enabled_change{};
  bool link_width_enabled_change{};
  bool node_description_change{};
  std::uint16_t capability_mask2{};
  bool operator==(const CapabilityNoticeDetails&) const = default;

  // clang-format off
  using Wire = Layout<54,
      Reserved<16>,
      Field<"LIDADDR", 16, &CapabilityNoticeDetails::lid>,
      Reserved<15>,
      Field<"OtherLocalChanges", 1, &CapabilityNoticeDetails::other_local_changes>,
      Field<"CAPABILITYMASK", 32, &CapabilityNoticeDetails::capability_mask>,
      Reserved<10>,
      Field<"CapabilityMask2Change", 1, &CapabilityNoticeDetails::capability_mask2_change>,
      Field<"HierarchyInfoChange", 1, &CapabilityNoticeDetails::hierarchy_info_change>,
      Field<"SMPriorityChange", 1, &CapabilityNoticeDetails::sm_priority_change>,
      Field<"LinkSpeedEnabledChange", 1, &CapabilityNoticeDetails::link_speed_enabled_change>,
      Field<"LinkWidthEnabledChange", 1, &CapabilityNoticeDetails::link_width_enabled_change>,
      Field<"NodeDescriptionChange", 1, &CapabilityNoticeDetails::node_description_change>,
      Field<"CAPABILITYMASK2", 16, &CapabilityNoticeDetails::capability_mask2>,
      Reserved<320>>;
  // clang-format on
};

/// Trap 145: the system image GUID changed.
struct SystemImageGuidNoticeDetails {
  static constexpr std::string_view kName = "System image GUID trap details";

  Lid lid{};
  Guid system_image_guid{};
  bool operator==(const SystemImageGuidNoticeDetails&) const = default;

  // clang-format off
  using Wire = Layout<54,
      Reserved<16>,
      Field<"LIDADDR", 16, &SystemImageGuidNoticeDetails::lid>,
      Reserved<16>,
      Field<"SYSTEMIMAGEGUID", 64, &SystemImageGuidNoticeDetails::system_image_guid>,
      Reserved<320>>;
  // clang-format on
};

/// Trap 256: an SMP had a wrong M_Key.
struct BadMKeyNoticeDetails {
  static constexpr std::string_view kName = "Bad M_Key trap details";

  Lid lid{};  ///< of the reporting node
  Lid dr_slid{};
  std::uint8_t method{};
  std::uint16_t attribute_id{};
  std::uint32_t attribute_modifier{};
  std::uint64_t mkey{};
  bool is_directed{};
  bool path_is_truncated{};
  std::uint8_t hop_count{};
  std::array<std::byte, 30> return_path{};
  bool operator==(const BadMKeyNoticeDetails&) const = default;

  // clang-format off
  using Wire = Layout<54,
      Reserved<16>,
      Field<"LIDADDR", 16, &BadMKeyNoticeDetails::lid>,
      Field<"DRSLID", 16, &BadMKeyNoticeDetails::dr_slid>,
      Field<"METHOD", 8, &BadMKeyNoticeDetails::method>,
      Reserved<8>,
      Field<"ATTRIBUTEID", 16, &BadMKeyNoticeDetails::attribute_id>,
      Field<"ATTRIBUTEMODIFIER", 32, &BadMKeyNoticeDetails::attribute_modifier>,
      Field<"MKEY", 64, &BadMKeyNoticeDetails::mkey>,
      Reserved<8>,
      Field<"DRNotice", 1, &BadMKeyNoticeDetails::is_directed>,
      Field<"DRPathTruncated", 1, &BadMKeyNoticeDetails::path_is_truncated>,
      Field<"DRHopCount", 6, &BadMKeyNoticeDetails::hop_count>,
      Octets<"DRNoticeReturnPath", 30, &BadMKeyNoticeDetails::return_path>>;
  // clang-format on
};

/// Traps 257 and 258: a packet had a wrong P_Key or Q_Key.
struct BadKeyNoticeDetails {
  static constexpr std::string_view kName = "Bad key trap details";

  Lid lid1{};  ///< source
  Lid lid2{};  ///< destination
  std::uint32_t key{};
  ServiceLevel sl{};
  Qpn qp1{};
  Qpn qp2{};
  Gid gid1{};
  Gid gid2{};
  bool operator==(const BadKeyNoticeDetails&) const = default;

  // clang-format off
  using Wire = Layout<54,
      Reserved<16>,
      Field<"LIDADDR1", 16, &BadKeyNoticeDetails::lid1>,
      Field<"LIDADDR2", 16, &BadKeyNoticeDetails::lid2>,
      Field<"KEY", 32, &BadKeyNoticeDetails::key>,
      Field<"SL", 4, &BadKeyNoticeDetails::sl>,
      Reserved<4>,
      Field<"QP1", 24, &BadKeyNoticeDetails::qp1>,
      Reserved<8>,
      Field<"QP2", 24, &BadKeyNoticeDetails::qp2>,
      Octets<"GIDADDR1", 16, &BadKeyNoticeDetails::gid1>,
      Octets<"GIDADDR2", 16, &BadKeyNoticeDetails::gid2>,
      Reserved<32>>;
  // clang-format on
};

/// Trap 259: a switch received a packet with a wrong P_Key.
struct SwitchBadPKeyNoticeDetails {
  static constexpr std::string_view kName = "Bad P_Key at switch trap details";

  std::uint16_t data_valid{};  ///< bitmap of the valid fields
  Lid lid1{};
  Lid lid2{};
  PKey pkey{};
  ServiceLevel sl{};
  Qpn qp1{};
  Qpn qp2{};
  Gid gid1{};
  Gid gid2{};
  Lid switch_lid{};
  PortNumber port{};
  bool operator==(const SwitchBadPKeyNoticeDetails&) const = default;

  // clang-format off
  using Wire = Layout<54,
      Field<"DataValid", 16, &SwitchBadPKeyNoticeDetails::data_valid>,
      Field<"LIDADDR1", 16, &SwitchBadPKeyNoticeDetails::lid1>,
      Field<"LIDADDR2", 16, &SwitchBadPKeyNoticeDetails::lid2>,
      Field<"PKEY", 16, &SwitchBadPKeyNoticeDetails::pkey>,
      Field<"SL", 4, &SwitchBadPKeyNoticeDetails::sl>,
      Reserved<4>,
      Field<"QP1", 24, &SwitchBadPKeyNoticeDetails::qp1>,
      Reserved<8>,
      Field<"QP2", 24, &SwitchBadPKeyNoticeDetails::qp2>,
      Octets<"GIDADDR1", 16, &SwitchBadPKeyNoticeDetails::gid1>,
      Octets<"GIDADDR2", 16, &SwitchBadPKeyNoticeDetails::gid2>,
      Field<"SWLIDADDR", 16, &SwitchBadPKeyNoticeDetails::switch_lid>,
      Field<"PORTNO", 8, &SwitchBadPKeyNoticeDetails::port>,
      Reserved<24>>;
  // clang-format on
};

}  // namespace weft::wire
