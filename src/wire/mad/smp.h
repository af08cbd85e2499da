#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/identifiers.h"
#include "wire/layout.h"
#include "wire/mad/mad.h"

namespace weft::wire {

inline constexpr std::size_t kSmpDataBytes = 64;
inline constexpr std::size_t kSmpPathEntries = 64;  ///< entry 0 is unused, so at most 63 hops

/// Offsets in an SMP (IBTA vol 1 §14.2.1), for access in place.
inline constexpr std::size_t kSmpRouteAt = 24;  ///< SmpRoute
inline constexpr std::size_t kSmpDataAt = 64;
inline constexpr std::size_t kSmpInitialPathAt = 128;
inline constexpr std::size_t kSmpReturnPathAt = 192;

/// Attributes of subnet management (IBTA vol 1 §14.2.5).
enum class SmpAttribute : std::uint16_t {
  Notice = 0x0002,
  NodeDescription = 0x0010,
  NodeInfo = 0x0011,
  SwitchInfo = 0x0012,
  GuidInfo = 0x0014,
  PortInfo = 0x0015,
  PKeyTable = 0x0016,
  SlToVlMappingTable = 0x0017,
  VlArbitrationTable = 0x0018,
  LinearForwardingTable = 0x0019,
  RandomForwardingTable = 0x001A,
  MulticastForwardingTable = 0x001B,
  SmInfo = 0x0020,
  VendorDiag = 0x0030,
  LedInfo = 0x0031,
  PortInfoExtended = 0x0033,
};

/// The specification's name; empty if the number is reserved.
[[nodiscard]] std::string_view name_of(SmpAttribute attribute);

/// LID-routed SMP (IBTA vol 1 §14.2.1.1): a MAD to QP0 that switches forward like any packet.
struct SmpLidRouted {
  static constexpr std::string_view kName = "SMP LID routed";

  MadHeader header{.mgmt_class = ManagementClass::SubnLidRouted};
  std::uint64_t mkey{};
  std::array<std::byte, kSmpDataBytes> data{};
  bool operator==(const SmpLidRouted&) const = default;

  // clang-format off
  using Wire = Layout<kMadBytes,
      Nested<&SmpLidRouted::header>,
      Field<"M_Key", 64, &SmpLidRouted::mkey>,
      Reserved<256>,
      Octets<"SMPData", kSmpDataBytes, &SmpLidRouted::data>,
      Reserved<1024>>;
  // clang-format on
};

/// Common MAD header of a directed-route SMP: D and the hop fields replace the top bit of Status
/// and ClassSpecific (IBTA vol 1 §14.2.1.2).
struct SmpDirectedHeader {
  static constexpr std::string_view kName = "SMP directed route header";

  std::uint8_t base_version{kMadBaseVersion};
  ManagementClass mgmt_class{ManagementClass::SubnDirectedRoute};
  std::uint8_t class_version{1};
  MadMethod method{};
  bool direction{};        ///< D: false outbound, true returning
  std::uint16_t status{};  ///< 15 bits
  std::uint8_t hop_pointer{};
  std::uint8_t hop_count{};
  std::uint64_t transaction_id{};
  std::uint16_t attribute_id{};
  std::uint32_t attribute_modifier{};
  bool operator==(const SmpDirectedHeader&) const = default;

  // clang-format off
  using Wire = Layout<24,
      Field<"BaseVersion", 8, &SmpDirectedHeader::base_version>,
      Field<"MgmtClass", 8, &SmpDirectedHeader::mgmt_class>,
      Field<"ClassVersion", 8, &SmpDirectedHeader::class_version>,
      Field<"Method", 8, &SmpDirectedHeader::method>,
      Field<"D", 1, &SmpDirectedHeader::direction>,
      Field<"Status", 15, &SmpDirectedHeader::status>,
      Field<"HopPointer", 8, &SmpDirectedHeader::hop_pointer>,
      Field<"HopCount", 8, &SmpDirectedHeader::hop_count>,
      Field<"TransactionID", 64, &SmpDirectedHeader::transaction_id>,
      Field<"AttributeID", 16, &SmpDirectedHeader::attribute_id>,
      Reserved<16>,
      Field<"AttributeModifier", 32, &SmpDirectedHeader::attribute_modifier>>;
  // clang-format on
};

/// Directed-route SMP (IBTA vol 1 §14.2.1.2): it carries its route as a list of ports, and so works
/// before LIDs are assigned.
struct SmpDirected {
  static constexpr std::string_view kName = "SMP directed route";

  SmpDirectedHeader header;
  std::uint64_t mkey{};
  Lid dr_slid;
  Lid dr_dlid;
  std::array<std::byte, kSmpDataBytes> data{};
  std::array<std::byte, kSmpPathEntries> initial_path{};
  std::array<std::byte, kSmpPathEntries> return_path{};
  bool operator==(const SmpDirected&) const = default;

  // clang-format off
  using Wire = Layout<kMadBytes,
      Nested<&SmpDirected::header>,
      Field<"M_Key", 64, &SmpDirected::mkey>,
      Field<"DrSLID", 16, &SmpDirected::dr_slid>,
      Field<"DrDLID", 16, &SmpDirected::dr_dlid>,
      Reserved<224>,
      Octets<"SMPData", kSmpDataBytes, &SmpDirected::data>,
      Octets<"InitialPath", kSmpPathEntries, &SmpDirected::initial_path>,
      Octets<"ReturnPath", kSmpPathEntries, &SmpDirected::return_path>>;
  // clang-format on
};

/// The part of a directed-route SMP after the common header; a LID-routed SMP has the M_Key only.
struct SmpRoute {
  static constexpr std::string_view kName = "SMP M_Key and LIDs";

  std::uint64_t mkey{};
  Lid dr_slid{};
  Lid dr_dlid{};
  bool operator==(const SmpRoute&) const = default;

  // clang-format off
  using Wire = Layout<12,
      Field<"M_Key", 64, &SmpRoute::mkey>,
      Field<"DrSLID", 16, &SmpRoute::dr_slid>,
      Field<"DrDLID", 16, &SmpRoute::dr_dlid>>;
  // clang-format on
};

}  // namespace weft::wire
