#include "node/host_view.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "agents/pma.h"
#include "fabric/virtual_ports.h"
#include "hca/device_capabilities.h"

namespace weft::node {
namespace {

// ABI versions that Linux 6.1 announces for each kind of device file; that of uverbs is the
// driver's own, which is ours to choose.
constexpr std::uint64_t kUverbsAbi = 1;
constexpr std::uint64_t kUmadAbi = 5;
constexpr std::uint64_t kRdmaCmAbi = 4;

/// Counters of a port's link (IBTA vol 1 §16.1.3.5) under the names that Linux gives their files.
/// What a simulated cable and its buffers never do is counted as never, as the PMA says it too.
[[nodiscard]] host_view::PortView::Counters link_counters(const fabric::PortCounters& read) {
  const auto tick = static_cast<std::uint64_t>(agents::Pma::kTickTime.nanoseconds());
  return {
      {"VL15_dropped",                    0                           },
      {"excessive_buffer_overrun_errors", 0                           },
      {"link_downed",                     read.link_downed            },
      {"link_error_recovery",             0                           },
      {"local_link_integrity_errors",     0                           },
      {"multicast_rcv_packets",           read.multicast_rcv_packets  },
      {"multicast_xmit_packets",          read.multicast_xmit_packets },
      {"port_rcv_constraint_errors",      0                           },
      {"port_rcv_data",                   read.rcv_data               },
      {"port_rcv_errors",                 read.rcv_errors             },
      {"port_rcv_packets",                read.rcv_packets            },
      {"port_rcv_remote_physical_errors", 0                           },
      {"port_rcv_switch_relay_errors",    read.rcv_switch_relay_errors},
      {"port_xmit_constraint_errors",     0                           },
      {"port_xmit_data",                  read.xmit_data              },
      {"port_xmit_discards",              read.xmit_discards          },
      {"port_xmit_packets",               read.xmit_packets           },
      {"port_xmit_wait",                  read.xmit_wait / tick       },
      {"symbol_error",                    0                           },
      {"unicast_rcv_packets",             read.unicast_rcv_packets    },
      {"unicast_xmit_packets",            read.unicast_xmit_packets   },
  };
}

/// Why the port dropped packets (IBTA vol 1 §16.1.4), and what came with a wrong key.
[[nodiscard]] host_view::PortView::Counters adapter_counters(const fabric::PortDetails& details,
                                                             const wire::PortInfo& info) {
  using enum fabric::PathEnd;
  return {
      {"port_inactive_discards",          details.of(PortInactive)    },
      {"port_neighbor_mtu_discards",      details.of(NeighborMtu)     },
      {"port_sw_lifetime_limit_discards", details.of(LifetimeLimit)   },
      {"port_sw_hoq_lifetime_discards",   details.of(HeadOfQueueLimit)},
      {"port_malformed_packet_errors",    details.of(Malformed)       },
      {"port_local_physical_errors",      details.of(Damaged)         },
      {"pkey_violations",                 info.pkey_violations        },
      {"qkey_violations",                 info.qkey_violations        },
  };
}

/// enum ib_port_speed: the extended speeds lie above the eight others.
[[nodiscard]] std::uint16_t active_speed(const wire::PortInfo& info) {
  return info.link_speed_ext_active != 0
             ? static_cast<std::uint16_t>(info.link_speed_ext_active << 4)
             : info.link_speed_active;
}

[[nodiscard]] host_view::PortView view_port(const HostViewSources& sources, fabric::PortIndex index,
                                            std::uint32_t number, Instant now,
                                            WithCounters counters) {
  const fabric::PortRecord& record = sources.tables.port(index);
  const wire::PortInfo info = sources.agents.port_info(index);
  const auto gids = sources.tables.gids(index);
  const auto pkeys = sources.tables.pkeys(index);
  host_view::PortView view{
      .number = number,
      .capability_mask = info.capability_mask.bits(),
      .capability_mask2 = info.capability_mask2.bits(),
      .subnet_prefix = info.gid_prefix,
      .lid = info.lid,
      .sm_lid = info.master_sm_lid,
      .sm_sl = info.master_sm_sl,
      .lmc = info.lmc,
      .state = std::to_underlying(record.is_omni_path() ? wire::LinkState::Down  // as for verbs
                                                        : info.port_state),
      .physical_state = std::to_underlying(info.physical_state),
      .active_width = info.link_width_active,
      .active_speed = active_speed(info),
      .link_layer = record.link_type == fabric::LinkType::Ethernet ? "Ethernet" : "InfiniBand",
      .gids = {gids.begin(),  gids.end() },
      .pkeys = {pkeys.begin(), pkeys.end()},
  };
  if (view.gids.size() < kGidTableLength) {
    view.gids.resize(kGidTableLength);
  }
  if (counters == WithCounters::Yes) {
    view.counters = link_counters(sources.counters.read(index, now));
    view.hardware_counters = adapter_counters(sources.counters.read_details(index, now), info);
  }
  return view;
}

[[nodiscard]] std::string text_of(const wire::NodeDescription& description) {
  std::string text;
  for (const std::byte octet : description.text) {
    if (octet == std::byte{0}) {
      break;
    }
    text += static_cast<char>(octet);
  }
  return text;
}

/// None of a virtual function, which has none of its own, and where no function could be: at an HCA
/// whose first port has no cable.
[[nodiscard]] std::optional<host_view::SriovView> view_functions(const HostViewSources& sources,
                                                                 const fabric::HcaRecord& hca,
                                                                 fabric::HcaIndex index) {
  if (sources.tables.port(hca.first_port).peer == fabric::kNoPort) {
    return std::nullopt;
  }
  host_view::SriovView view{.total = fabric::kMostVirtualFunctions};
  for (const fabric::PortIndex port : sources.shared_ports.functions_of_hca(index)) {
    const fabric::PortRecord& record = sources.tables.port(port);
    view.functions.push_back({.node_guid = sources.tables.hcas()[record.hca.value()].guid,
                              .port_guid = record.guid,
                              .policy = sources.shared_ports.description_of(port).policy});
  }
  return view;
}

void add_character_devices(const host_view::DeviceView& device, std::uint32_t& umad,
                           host_view::HostView& view) {
  using N = DeviceNumbers;
  view.character_devices.push_back(
      {.type = "uverbs",
       .name = fmt::format("uverbs{}", device.index),
       .abi = kUverbsAbi,
       .number = device_number(N::kInfinibandMajor, N::kFirstUverbs + device.index),
       .device = device.index});
  for (const host_view::PortView& port : device.ports) {
    view.character_devices.push_back(
        {.type = "umad",
         .name = fmt::format("umad{}", umad),
         .abi = kUmadAbi,
         .number = device_number(N::kInfinibandMajor, N::kFirstUmad + umad),
         .device = device.index,
         .port = port.number});
    view.character_devices.push_back(
        {.type = "issm",
         .name = fmt::format("issm{}", umad),
         .abi = kUmadAbi,
         .number = device_number(N::kInfinibandMajor, N::kFirstIsSm + umad),
         .device = device.index,
         .port = port.number});
    ++umad;
  }
}

}  // namespace

host_view::HostView view_host(const HostViewSources& sources, fabric::NodeIndex host, Instant now,
                              WithCounters counters) {
  host_view::HostView view;
  const fabric::NodeRecord& node = sources.tables.node(host);
  if (node.kind != fabric::NodeKind::Host || node.is_removed()) {
    return view;
  }
  std::uint32_t umad = 0;
  for (std::uint32_t i = 0; i < node.hca_count; ++i) {
    const fabric::HcaRecord& hca = sources.tables.hcas()[node.first_hca.value() + i];
    host_view::DeviceView device{
        .index = i,
        .name = std::string{sources.tables.name(hca)},
        .capability_flags = hca::kDeviceCapabilities | hca::kDeviceExtendedCapabilities,
        .firmware_version = std::string{host_view::kFirmwareVersion},
        .hardware_revision = "1",
        .board_id = "WEFT_HCA",
        .type = "Weft",
        .description = text_of(sources.agents.node_description(hca.first_port)),
        .node_guid = hca.guid,
        .system_image_guid = hca.system_image_guid,
        .protocol = "ib",
    };
    for (std::uint32_t port = 0; port < hca.port_count; ++port) {
      device.ports.push_back(view_port(sources, fabric::PortIndex{hca.first_port.value() + port},
                                       port + 1, now, counters));
    }
    device.sriov = view_functions(sources, hca, fabric::HcaIndex{node.first_hca.value() + i});
    add_character_devices(device, umad, view);
    view.devices.push_back(std::move(device));
  }
  if (!view.devices.empty()) {
    view.character_devices.push_back(
        {.type = "rdma_cm",
         .name = "rdma_cm",
         .abi = kRdmaCmAbi,
         .number = device_number(DeviceNumbers::kMiscMajor, DeviceNumbers::kRdmaCm)});
  }
  return view;
}

}  // namespace weft::node
