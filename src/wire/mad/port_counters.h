#pragma once

#include <cstdint>
#include <string_view>

#include "base/identifiers.h"
#include "wire/layout.h"

/// Port counters. They saturate; a Set writes those selected by CounterSelect.
namespace weft::wire {

/// CounterSelect of PortCounters (IBTA vol 1 §16.1.3.5).
enum class PortCounterSelect : std::uint16_t {
  SymbolErrors = 1U << 0,
  LinkErrorRecovery = 1U << 1,
  LinkDowned = 1U << 2,
  RcvErrors = 1U << 3,
  RcvRemotePhysicalErrors = 1U << 4,
  RcvSwitchRelayErrors = 1U << 5,
  XmitDiscards = 1U << 6,
  XmitConstraintErrors = 1U << 7,
  RcvConstraintErrors = 1U << 8,
  LocalLinkIntegrityErrors = 1U << 9,
  ExcessiveBufferOverrunErrors = 1U << 10,
  Vl15Dropped = 1U << 11,
  XmitData = 1U << 12,
  RcvData = 1U << 13,
  XmitPackets = 1U << 14,
  RcvPackets = 1U << 15,
};

/// Bit 0 of CounterSelect2.
inline constexpr std::uint8_t kSelectPortXmitWait = 1;

/// CounterSelect of PortCountersExtended (IBTA vol 1 §16.1.4.11).
enum class PortCounterExtendedSelect : std::uint16_t {
  XmitData = 1U << 0,
  RcvData = 1U << 1,
  XmitPackets = 1U << 2,
  RcvPackets = 1U << 3,
  UnicastXmitPackets = 1U << 4,
  UnicastRcvPackets = 1U << 5,
  MulticastXmitPackets = 1U << 6,
  MulticastRcvPackets = 1U << 7,
};

/// CounterSelect2 of PortCountersExtended, valid if CapabilityMask2 says that these counters exist
/// (IBTA vol 1 §16.1.4.11).
enum class PortCounterExtendedSelect2 : std::uint32_t {
  SymbolErrors = 1U << 0,
  LinkErrorRecovery = 1U << 1,
  LinkDowned = 1U << 2,
  RcvErrors = 1U << 3,
  RcvRemotePhysicalErrors = 1U << 4,
  RcvSwitchRelayErrors = 1U << 5,
  XmitDiscards = 1U << 6,
  XmitConstraintErrors = 1U << 7,
  RcvConstraintErrors = 1U << 8,
  LocalLinkIntegrityErrors = 1U << 9,
  ExcessiveBufferOverrunErrors = 1U << 10,
  Vl15Dropped = 1U << 11,
  XmitWait = 1U << 12,
  Qp1Dropped = 1U << 13,
};

/// PortCounters (IBTA vol 1 §16.1.3.5). Data is counted in units of 4 bytes.
struct PortCounters {
  static constexpr std::string_view kName = "PortCounters";

  PortNumber port_select{};  ///< 0xFF: sum of all ports, where supported
  std::uint16_t counter_select{};
  std::uint16_t symbol_error_counter{};
  std::uint8_t link_error_recovery_counter{};
  std::uint8_t link_downed_counter{};
  std::uint16_t port_rcv_errors{};
  std::uint16_t port_rcv_remote_physical_errors{};
  std::uint16_t port_rcv_switch_relay_errors{};
  std::uint16_t port_xmit_discards{};
  std::uint8_t port_xmit_constraint_errors{};
  std::uint8_t port_rcv_constraint_errors{};
  std::uint8_t counter_select2{};
  std::uint8_t local_link_integrity_errors{};
  std::uint8_t excessive_buffer_overrun_errors{};
  std::uint16_t qp1_dropped{};
  std::uint16_t vl15_dropped{};
  std::uint32_t port_xmit_data{};
  std::uint32_t port_rcv_data{};
  std::uint32_t port_xmit_packets{};
  std::uint32_t port_rcv_packets{};
  std::uint32_t port_xmit_wait{};  ///< ticks in which data waited for credits
  bool operator==(const PortCounters&) const = default;

  // clang-format off
  using Wire = Layout<44,
      Reserved<8>,
      Field<"PortSelect", 8, &PortCounters::port_select>,
      Field<"CounterSelect", 16, &PortCounters::counter_select>,
      Field<"SymbolErrorCounter", 16, &PortCounters::symbol_error_counter>,
      Field<"LinkErrorRecoveryCounter", 8, &PortCounters::link_error_recovery_counter>,
      Field<"LinkDownedCounter", 8, &PortCounters::link_downed_counter>,
      Field<"PortRcvErrors", 16, &PortCounters::port_rcv_errors>,
      Field<"PortRcvRemotePhysicalErrors", 16, &PortCounters::port_rcv_remote_physical_errors>,
      Field<"PortRcvSwitchRelayErrors", 16, &PortCounters::port_rcv_switch_relay_errors>,
      Field<"PortXmitDiscards", 16, &PortCounters::port_xmit_discards>,
      Field<"PortXmitConstraintErrors", 8, &PortCounters::port_xmit_constraint_errors>,
      Field<"PortRcvConstraintErrors", 8, &PortCounters::port_rcv_constraint_errors>,
      Field<"CounterSelect2", 8, &PortCounters::counter_select2>,
      Field<"LocalLinkIntegrityErrors", 4, &PortCounters::local_link_integrity_errors>,
      Field<"ExcessiveBufferOverrunErrors", 4, &PortCounters::excessive_buffer_overrun_errors>,
      Field<"QP1Dropped", 16, &PortCounters::qp1_dropped>,
      Field<"VL15Dropped", 16, &PortCounters::vl15_dropped>,
      Field<"PortXmitData", 32, &PortCounters::port_xmit_data>,
      Field<"PortRcvData", 32, &PortCounters::port_rcv_data>,
      Field<"PortXmitPkts", 32, &PortCounters::port_xmit_packets>,
      Field<"PortRcvPkts", 32, &PortCounters::port_rcv_packets>,
      Field<"PortXmitWait", 32, &PortCounters::port_xmit_wait>>;
  // clang-format on
};

/// PortCountersExtended (IBTA vol 1 §16.1.4.11): 64-bit counters, which do not saturate within
/// seconds. Error counters are valid if CounterSelect2 is supported.
struct PortCountersExtended {
  static constexpr std::string_view kName = "PortCountersExtended";

  PortNumber port_select{};  ///< 0xFF: sum of all ports, where supported
  std::uint16_t counter_select{};
  std::uint32_t counter_select2{};
  std::uint64_t port_xmit_data{};
  std::uint64_t port_rcv_data{};
  std::uint64_t port_xmit_packets{};
  std::uint64_t port_rcv_packets{};
  std::uint64_t port_unicast_xmit_packets{};
  std::uint64_t port_unicast_rcv_packets{};
  std::uint64_t port_multicast_xmit_packets{};
  std::uint64_t port_multicast_rcv_packets{};
  std::uint64_t symbol_error_counter{};
  std::uint64_t link_error_recovery_counter{};
  std::uint64_t link_downed_counter{};
  std::uint64_t port_rcv_errors{};
  std::uint64_t port_rcv_remote_physical_errors{};
  std::uint64_t port_rcv_switch_relay_errors{};
  std::uint64_t port_xmit_discards{};
  std::uint64_t port_xmit_constraint_errors{};
  std::uint64_t port_rcv_constraint_errors{};
  std::uint64_t local_link_integrity_errors{};
  std::uint64_t excessive_buffer_overrun_errors{};
  std::uint64_t vl15_dropped{};
  std::uint64_t port_xmit_wait{};
  std::uint64_t qp1_dropped{};
  bool operator==(const PortCountersExtended&) const = default;

  // clang-format off
  using Wire = Layout<184,
      Reserved<8>,
      Field<"PortSelect", 8, &PortCountersExtended::port_select>,
      Field<"CounterSelect", 16, &PortCountersExtended::counter_select>,
      Field<"CounterSelect2", 32, &PortCountersExtended::counter_select2>,
      Field<"PortXmitData", 64, &PortCountersExtended::port_xmit_data>,
      Field<"PortRcvData", 64, &PortCountersExtended::port_rcv_data>,
      Field<"PortXmitPkts", 64, &PortCountersExtended::port_xmit_packets>,
      Field<"PortRcvPkts", 64, &PortCountersExtended::port_rcv_packets>,
      Field<"PortUnicastXmitPkts", 64, &PortCountersExtended::port_unicast_xmit_packets>,
      Field<"PortUnicastRcvPkts", 64, &PortCountersExtended::port_unicast_rcv_packets>,
      Field<"PortMulticastXmitPkts", 64, &PortCountersExtended::port_multicast_xmit_packets>,
      Field<"PortMulticastRcvPkts", 64, &PortCountersExtended::port_multicast_rcv_packets>,
      Field<"SymbolErrorCounter", 64, &PortCountersExtended::symbol_error_counter>,
      Field<"LinkErrorRecoveryCounter", 64, &PortCountersExtended::link_error_recovery_counter>,
      Field<"LinkDownedCounter", 64, &PortCountersExtended::link_downed_counter>,
      Field<"PortRcvErrors", 64, &PortCountersExtended::port_rcv_errors>,
      Field<"PortRcvRemotePhysicalErrors", 64, &PortCountersExtended::port_rcv_remote_physical_errors>,
      Field<"PortRcvSwitchRelayErrors", 64, &PortCountersExtended::port_rcv_switch_relay_errors>,
      Field<"PortXmitDiscards", 64, &PortCountersExtended::port_xmit_discards>,
      Field<"PortXmitConstraintErrors", 64, &PortCountersExtended::port_xmit_constraint_errors>,
      Field<"PortRcvConstraintErrors", 64, &PortCountersExtended::port_rcv_constraint_errors>,
      Field<"LocalLinkIntegrityErrors", 64, &PortCountersExtended::local_link_integrity_errors>,
      Field<"ExcessiveBufferOverrunErrors", 64, &PortCountersExtended::excessive_buffer_overrun_errors>,
      Field<"VL15Dropped", 64, &PortCountersExtended::vl15_dropped>,
      Field<"PortXmitWait", 64, &PortCountersExtended::port_xmit_wait>,
      Field<"QP1Dropped", 64, &PortCountersExtended::qp1_dropped>>;
  // clang-format on
};

}  // namespace weft::wire
