#include "programs/em/report.h"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <vector>

#include "programs/vnic/report.h"

namespace weft::programs::em {

using net::NamedCount;
using opa_vnic::MemberStatus;
using opa_vnic::SwitchConfig;

namespace {

[[nodiscard]] std::string_view link_text(wire::EthLinkStatus link) {
  return link == wire::EthLinkStatus::Up ? "up" : "down";
}

[[nodiscard]] std::vector<NamedCount> counts_of(const opa_vnic::ManagerCounters& counters) {
  return {
      {"requests", counters.requests},
      {"repeats",  counters.repeats },
      {"failures", counters.failures},
      {"traps",    counters.traps   },
      {"reloads",  counters.reloads },
      {"ignored",  counters.ignored }
  };
}

[[nodiscard]] std::string port_text(const SwitchesFile& file, const MemberStatus& port) {
  return fmt::format("  {:<10} {:>5} {:>6} {:<14} {:<5} {} {:>5} {:>10} {:>10} {:>7}\n",
                     file.host_of(port.config.port), port.config.vport, port.lid,
                     opa_vnic::name_of(port.state), link_text(port.link),
                     vnic::mac_text(port.config.mac), port.reported_macs, port.counters.tx_packets,
                     port.counters.rx_packets, port.counters.tx_errors + port.counters.rx_errors);
}

[[nodiscard]] std::string port_json(const SwitchesFile& file, const MemberStatus& port) {
  return fmt::format(
      R"({{"host": "{}", "vport": {}, "lid": {}, "state": "{}", "link": "{}", "mac": "{}", )"
      R"("reported_macs": {}, "counters": {}, "errors": {}}})",
      file.host_of(port.config.port), port.config.vport, port.lid, opa_vnic::name_of(port.state),
      link_text(port.link), vnic::mac_text(port.config.mac), port.reported_macs,
      vnic::json_of(vnic::named(port.counters)), vnic::json_of(vnic::named(port.errors)));
}

}  // namespace

std::string show_switches(const SwitchesFile& file, const opa_vnic::ManagerConfig& config,
                          const opa_vnic::EthernetManager& manager, bool is_json) {
  std::string text;
  const auto status = manager.status();
  for (const SwitchConfig& one : config.switches) {
    std::string ports;
    for (const MemberStatus& port : status) {
      if (port.switch_name == one.name) {
        ports += is_json && !ports.empty() ? ", " : "";
        ports += is_json ? port_json(file, port) : port_text(file, port);
      }
    }
    if (is_json) {
      text += fmt::format(R"({}{{"name": "{}", "id": {}, "fabric": {}, "mtu": {}, )"
                          R"("multicast_lid": {}, "ports": [{}]}})",
                          text.empty() ? "" : ", ", one.name, one.vesw_id, one.fabric_id, one.mtu,
                          one.multicast_dlid, ports);
    } else {
      text += fmt::format("switch {}: number {}, mtu {}, multicast LID {:#x}\n", one.name,
                          one.vesw_id, one.mtu, one.multicast_dlid);
      text += fmt::format("  {:<10} {:>5} {:>6} {:<14} {:<5} {:<17} {:>5} {:>10} {:>10} {:>7}\n",
                          "host", "vport", "LID", "state", "link", "link address", "MACs", "sent",
                          "received", "errors");
      text += ports;
    }
  }
  const auto counts = counts_of(manager.counters());
  if (is_json) {
    return fmt::format(R"({{"switches": [{}], "settled": {}, "manager": {}}})"
                       "\n",
                       text, manager.is_settled(), vnic::json_of(counts));
  }
  text += manager.is_settled() ? "all ports that are there are set up;" : "ports are being set up;";
  for (const NamedCount& count : counts) {
    text += fmt::format(" {} {}", count.count, count.name);
  }
  return text + "\n";
}

}  // namespace weft::programs::em
