#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wire/layout.h"
#include "wire/layout_array.h"

/// Counters of a port of a virtual Ethernet switch, as VEMA reports them.
namespace weft::wire {

/// opa_veswport_summary_counters. Sizes of frames include the FCS; "multicast" includes broadcast.
struct VeswPortSummaryCounters {
  static constexpr std::string_view kName = "OPA VeswPort summary counters";

  std::uint16_t vport_instance{};
  std::uint16_t vesw_id{};
  std::uint32_t port_number{};
  std::uint64_t tx_errors{};
  std::uint64_t rx_errors{};
  std::uint64_t tx_packets{};
  std::uint64_t rx_packets{};
  std::uint64_t tx_bytes{};
  std::uint64_t rx_bytes{};
  std::uint64_t tx_unicast{};
  std::uint64_t tx_multicast{};
  std::uint64_t tx_untagged{};
  std::uint64_t tx_vlan{};
  std::uint64_t tx_64{};
  std::uint64_t tx_65_127{};
  std::uint64_t tx_128_255{};
  std::uint64_t tx_256_511{};
  std::uint64_t tx_512_1023{};
  std::uint64_t tx_1024_1518{};
  std::uint64_t tx_1519_max{};
  std::uint64_t rx_unicast{};
  std::uint64_t rx_multicast{};
  std::uint64_t rx_untagged{};
  std::uint64_t rx_vlan{};
  std::uint64_t rx_64{};
  std::uint64_t rx_65_127{};
  std::uint64_t rx_128_255{};
  std::uint64_t rx_256_511{};
  std::uint64_t rx_512_1023{};
  std::uint64_t rx_1024_1518{};
  std::uint64_t rx_1519_max{};
  std::array<std::uint64_t, 16> reserved{};
  bool operator==(const VeswPortSummaryCounters&) const = default;

  // clang-format off
  using Wire = Layout<360,
      Field<"VPInstance", 16, &VeswPortSummaryCounters::vport_instance>,
      Field<"VeswID", 16, &VeswPortSummaryCounters::vesw_id>,
      Field<"PortNumber", 32, &VeswPortSummaryCounters::port_number>,
      Field<"TxErrors", 64, &VeswPortSummaryCounters::tx_errors>,
      Field<"RxErrors", 64, &VeswPortSummaryCounters::rx_errors>,
      Field<"TxPackets", 64, &VeswPortSummaryCounters::tx_packets>,
      Field<"RxPackets", 64, &VeswPortSummaryCounters::rx_packets>,
      Field<"TxBytes", 64, &VeswPortSummaryCounters::tx_bytes>,
      Field<"RxBytes", 64, &VeswPortSummaryCounters::rx_bytes>,
      Field<"TxUnicast", 64, &VeswPortSummaryCounters::tx_unicast>,
      Field<"TxMulticastBroadcast", 64, &VeswPortSummaryCounters::tx_multicast>,
      Field<"TxUntagged", 64, &VeswPortSummaryCounters::tx_untagged>,
      Field<"TxVlan", 64, &VeswPortSummaryCounters::tx_vlan>,
      Field<"Tx64", 64, &VeswPortSummaryCounters::tx_64>,
      Field<"Tx65to127", 64, &VeswPortSummaryCounters::tx_65_127>,
      Field<"Tx128to255", 64, &VeswPortSummaryCounters::tx_128_255>,
      Field<"Tx256to511", 64, &VeswPortSummaryCounters::tx_256_511>,
      Field<"Tx512to1023", 64, &VeswPortSummaryCounters::tx_512_1023>,
      Field<"Tx1024to1518", 64, &VeswPortSummaryCounters::tx_1024_1518>,
      Field<"Tx1519toMax", 64, &VeswPortSummaryCounters::tx_1519_max>,
      Field<"RxUnicast", 64, &VeswPortSummaryCounters::rx_unicast>,
      Field<"RxMulticastBroadcast", 64, &VeswPortSummaryCounters::rx_multicast>,
      Field<"RxUntagged", 64, &VeswPortSummaryCounters::rx_untagged>,
      Field<"RxVlan", 64, &VeswPortSummaryCounters::rx_vlan>,
      Field<"Rx64", 64, &VeswPortSummaryCounters::rx_64>,
      Field<"Rx65to127", 64, &VeswPortSummaryCounters::rx_65_127>,
      Field<"Rx128to255", 64, &VeswPortSummaryCounters::rx_128_255>,
      Field<"Rx256to511", 64, &VeswPortSummaryCounters::rx_256_511>,
      Field<"Rx512to1023", 64, &VeswPortSummaryCounters::rx_512_1023>,
      Field<"Rx1024to1518", 64, &VeswPortSummaryCounters::rx_1024_1518>,
      Field<"Rx1519toMax", 64, &VeswPortSummaryCounters::rx_1519_max>,
      Numbers<"Reserved", 64, 16, &VeswPortSummaryCounters::reserved>>;
  // clang-format on
};

/// opa_veswport_error_counters.
struct VeswPortErrorCounters {
  static constexpr std::string_view kName = "OPA VeswPort error counters";

  std::uint16_t vport_instance{};
  std::uint16_t vesw_id{};
  std::uint32_t port_number{};
  std::uint64_t tx_errors{};      ///< all frames that were not sent
  std::uint64_t rx_errors{};      ///< all that were not delivered
  std::uint64_t tx_smac_filt{};   ///< the source is not among those that the table allows
  std::uint64_t tx_dlid_zero{};   ///< nowhere to send to
  std::uint64_t tx_logic{};       ///< too long for the MTU, or no frame
  std::uint64_t tx_drop_state{};  ///< the port does not forward
  std::uint64_t rx_bad_veswid{};  ///< of a virtual switch that no port belongs to
  std::uint64_t rx_runt{};
  std::uint64_t rx_oversize{};
  std::uint64_t rx_eth_down{};    ///< the OPA port or the link is down
  std::uint64_t rx_drop_state{};  ///< the port does not forward
  std::uint64_t rx_logic{};       ///< damaged
  bool operator==(const VeswPortErrorCounters&) const = default;

  // clang-format off
  using Wire = Layout<304,
      Field<"VPInstance", 16, &VeswPortErrorCounters::vport_instance>,
      Field<"VeswID", 16, &VeswPortErrorCounters::vesw_id>,
      Field<"PortNumber", 32, &VeswPortErrorCounters::port_number>,
      Field<"TxErrors", 64, &VeswPortErrorCounters::tx_errors>,
      Field<"RxErrors", 64, &VeswPortErrorCounters::rx_errors>,
      Reserved<64>,
      Field<"TxSmacFilt", 64, &VeswPortErrorCounters::tx_smac_filt>,
      Reserved<192>,
      Field<"TxDlidZero", 64, &VeswPortErrorCounters::tx_dlid_zero>,
      Reserved<64>,
      Field<"TxLogic", 64, &VeswPortErrorCounters::tx_logic>,
      Reserved<64>,
      Field<"TxDropState", 64, &VeswPortErrorCounters::tx_drop_state>,
      Field<"RxBadVeswid", 64, &VeswPortErrorCounters::rx_bad_veswid>,
      Reserved<64>,
      Field<"RxRunt", 64, &VeswPortErrorCounters::rx_runt>,
      Field<"RxOversize", 64, &VeswPortErrorCounters::rx_oversize>,
      Reserved<64>,
      Field<"RxEthDown", 64, &VeswPortErrorCounters::rx_eth_down>,
      Field<"RxDropState", 64, &VeswPortErrorCounters::rx_drop_state>,
      Field<"RxLogic", 64, &VeswPortErrorCounters::rx_logic>,
      Reserved<1088>>;
  // clang-format on
};

}  // namespace weft::wire
