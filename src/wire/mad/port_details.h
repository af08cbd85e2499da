#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/identifiers.h"
#include "wire/layout.h"
#include "wire/layout_array.h"

/// Components of PortCounters (IBTA vol 1 §16.1.4). Counters saturate. A Set writes those selected
/// by CounterSelect, bit n for the n-th counter.
namespace weft::wire {

/// PortRcvErrorDetails: the first three counters are parts of PortRcvErrors, the rest of
/// PortRcvSwitchRelayErrors.
struct PortRcvErrorDetails {
  static constexpr std::string_view kName = "PortRcvErrorDetails";

  PortNumber port_select{};  ///< 0xFF: sum of all ports, where supported
  std::uint16_t counter_select{};
  std::uint16_t port_local_physical_errors{};
  std::uint16_t port_malformed_packet_errors{};
  std::uint16_t port_buffer_overrun_errors{};
  std::uint16_t port_dlid_mapping_errors{};
  std::uint16_t port_vl_mapping_errors{};
  std::uint16_t port_looping_errors{};
  bool operator==(const PortRcvErrorDetails&) const = default;

  // clang-format off
  using Wire = Layout<16,
      Reserved<8>,
      Field<"PortSelect", 8, &PortRcvErrorDetails::port_select>,
      Field<"CounterSelect", 16, &PortRcvErrorDetails::counter_select>,
      Field<"PortLocalPhysicalErrors", 16, &PortRcvErrorDetails::port_local_physical_errors>,
      Field<"PortMalformedPacketErrors", 16, &PortRcvErrorDetails::port_malformed_packet_errors>,
      Field<"PortBufferOverrunErrors", 16, &PortRcvErrorDetails::port_buffer_overrun_errors>,
      Field<"PortDLIDMappingErrors", 16, &PortRcvErrorDetails::port_dlid_mapping_errors>,
      Field<"PortVLMappingErrors", 16, &PortRcvErrorDetails::port_vl_mapping_errors>,
      Field<"PortLoopingErrors", 16, &PortRcvErrorDetails::port_looping_errors>>;
  // clang-format on
};

/// PortXmitDiscardDetails: parts of PortXmitDiscards.
struct PortXmitDiscardDetails {
  static constexpr std::string_view kName = "PortXmitDiscardDetails";

  PortNumber port_select{};  ///< 0xFF: sum of all ports, where supported
  std::uint16_t counter_select{};
  std::uint16_t port_inactive_discards{};
  std::uint16_t port_neighbor_mtu_discards{};
  std::uint16_t port_sw_lifetime_limit_discards{};
  std::uint16_t port_sw_hoq_lifetime_limit_discards{};
  bool operator==(const PortXmitDiscardDetails&) const = default;

  // clang-format off
  using Wire = Layout<12,
      Reserved<8>,
      Field<"PortSelect", 8, &PortXmitDiscardDetails::port_select>,
      Field<"CounterSelect", 16, &PortXmitDiscardDetails::counter_select>,
      Field<"PortInactiveDiscards", 16, &PortXmitDiscardDetails::port_inactive_discards>,
      Field<"PortNeighborMTUDiscards", 16, &PortXmitDiscardDetails::port_neighbor_mtu_discards>,
      Field<"PortSwLifetimeLimitDiscards", 16, &PortXmitDiscardDetails::port_sw_lifetime_limit_discards>,
      Field<"PortSwHOQLifetimeLimitDiscards", 16, &PortXmitDiscardDetails::port_sw_hoq_lifetime_limit_discards>>;
  // clang-format on
};

/// PortXmitDataSL and PortRcvDataSL: PortXmitData and PortRcvData by service level.
struct PortDataSl {
  static constexpr std::string_view kName = "PortDataSL";

  PortNumber port_select{};  ///< 0xFF: sum of all ports, where supported
  std::uint16_t counter_select{};
  std::array<std::uint32_t, 16> data{};
  bool operator==(const PortDataSl&) const = default;

  // clang-format off
  using Wire = Layout<68,
      Reserved<8>,
      Field<"PortSelect", 8, &PortDataSl::port_select>,
      Field<"CounterSelect", 16, &PortDataSl::counter_select>,
      Numbers<"DataSL", 32, 16, &PortDataSl::data>>;
  // clang-format on
};

}  // namespace weft::wire
