#pragma once

// What a simulated host's kernel shows of it, taken from where each fact lives: devices and ports
// from the fabric's tables and the agents that answer for them, counters from whoever counts.
// What programs hold is not in it: only they know, and the owner of the fabric asks them.

#include <cstdint>

#include "agents/fabric_agents.h"
#include "base/time.h"
#include "fabric/counter_source.h"
#include "fabric/tables.h"
#include "host_view/host_view.h"
#include "node/shared_ports.h"

namespace weft::node {

/// Numbers of the character devices by which programs reach RDMA devices, as Linux gives them
/// (drivers/infiniband: IB_UVERBS_MAJOR and IB_UMAD_MAJOR are both 231): the first of each kind.
struct DeviceNumbers {
  static constexpr std::uint32_t kInfinibandMajor = 231;
  static constexpr std::uint32_t kFirstUmad = 0;      ///< one a port
  static constexpr std::uint32_t kFirstIsSm = 64;     ///< one a port
  static constexpr std::uint32_t kFirstUverbs = 192;  ///< one a device
  static constexpr std::uint32_t kMiscMajor = 10;
  /// Linux takes any that is free; policy.
  static constexpr std::uint32_t kRdmaCm = 122;
};

/// Entries of a port's GID table, empty ones included; policy.
inline constexpr std::size_t kGidTableLength = 8;

/// dev_t as Linux writes it in 64 bits.
[[nodiscard]] constexpr std::uint64_t device_number(std::uint32_t major, std::uint32_t minor) {
  return (minor & 0xFFU) | std::uint64_t{major & 0xFFFU} << 8 |
         std::uint64_t{minor & ~0xFFU} << 12 | std::uint64_t{major & ~0xFFFU} << 32;
}

/// Where the facts are; all must outlive the call.
struct HostViewSources {
  const fabric::TablesBuilder& tables;
  const agents::FabricAgents& agents;
  fabric::CounterSource& counters;
  const SharedPorts& shared_ports;
};

/// Whether the counters of ports are read: that sums pages of all programs of the fabric.
enum class WithCounters : bool { No, Yes };

/// The host at this moment. Device index N is its HCA N, counted from 0. Of a switch, and of a host
/// that was removed: nothing.
[[nodiscard]] host_view::HostView view_host(const HostViewSources& sources, fabric::NodeIndex host,
                                            Instant now, WithCounters counters);

}  // namespace weft::node
