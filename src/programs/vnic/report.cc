#include "programs/vnic/report.h"

#include <fmt/format.h>

#include "wire/address_text.h"

namespace weft::programs::vnic {

using net::NamedCount;

namespace {

[[nodiscard]] std::string indented(std::span<const NamedCount> counts) {
  std::string text;
  for (const NamedCount& count : counts) {
    if (count.count != 0) {
      text += fmt::format("  {:<26}{:>14}\n", count.name, count.count);
    }
  }
  return text;
}

[[nodiscard]] std::vector<NamedCount> counts_of(const VnicView& vnic) {
  std::vector<NamedCount> all = named(vnic.summary);
  for (const NamedCount& error : named(vnic.errors)) {
    if (error.name != "tx_errors" && error.name != "rx_errors") {  // are in both
      all.push_back(error);
    }
  }
  all.push_back({"rx_not_for_us", vnic.not_for_us});
  all.push_back({"rx_host_full", vnic.lost});
  return all;
}

}  // namespace

std::string mac_text(const wire::MacAddress& mac) { return wire::hex_text(mac.octets(), ":"); }

std::vector<NamedCount> named(const wire::VeswPortSummaryCounters& summary) {
  return {
      {"tx_packets",   summary.tx_packets  },
      {"rx_packets",   summary.rx_packets  },
      {"tx_bytes",     summary.tx_bytes    },
      {"rx_bytes",     summary.rx_bytes    },
      {"tx_unicast",   summary.tx_unicast  },
      {"rx_unicast",   summary.rx_unicast  },
      {"tx_multicast", summary.tx_multicast},
      {"rx_multicast", summary.rx_multicast},
      {"tx_vlan",      summary.tx_vlan     },
      {"rx_vlan",      summary.rx_vlan     },
      {"tx_errors",    summary.tx_errors   },
      {"rx_errors",    summary.rx_errors   }
  };
}

std::vector<NamedCount> named(const wire::VeswPortErrorCounters& errors) {
  return {
      {"tx_errors",     errors.tx_errors    },
      {"rx_errors",     errors.rx_errors    },
      {"tx_smac_filt",  errors.tx_smac_filt },
      {"tx_dlid_zero",  errors.tx_dlid_zero },
      {"tx_logic",      errors.tx_logic     },
      {"tx_drop_state", errors.tx_drop_state},
      {"rx_bad_veswid", errors.rx_bad_veswid},
      {"rx_runt",       errors.rx_runt      },
      {"rx_oversize",   errors.rx_oversize  },
      {"rx_eth_down",   errors.rx_eth_down  },
      {"rx_drop_state", errors.rx_drop_state},
      {"rx_logic",      errors.rx_logic     }
  };
}

std::vector<NamedCount> named(const OpaPortCounters& counters) {
  return {
      {"port_mads_sent",        counters.mads_sent       },
      {"port_mads_received",    counters.mads_received   },
      {"port_mads_unroutable",  counters.mads_unroutable },
      {"port_packets_sent",     counters.packets_sent    },
      {"port_packets_received", counters.packets_received},
      {"port_tx_no_peer",       counters.tx_no_peer      },
      {"port_tx_no_group",      counters.tx_no_group     },
      {"port_tx_too_long",      counters.tx_too_long     },
      {"port_tx_refused",       counters.tx_refused      },
      {"port_rx_truncated",     counters.rx_truncated    },
      {"port_rx_misrouted",     counters.rx_misrouted    },
      {"port_rx_lost",          counters.rx_lost         }
  };
}

std::string json_of(std::span<const NamedCount> counts) {
  std::string text = net::show_counts(counts, true);
  text.pop_back();
  return text;
}

std::string show_vnics(const PortView& port, std::span<const VnicView> vnics, bool is_json) {
  std::string text;
  for (const VnicView& vnic : vnics) {
    const auto counts = counts_of(vnic);
    if (is_json) {
      text += fmt::format(
          R"({}{{"interface": "{}", "up": {}, "mtu": {}, "mac": "{}", "fabric": {}, "switch": {}, )"
          R"("counters": {}}})",
          text.empty() ? "" : ", ", vnic.name, vnic.is_up, vnic.mtu, mac_text(vnic.mac),
          vnic.fabric_id, vnic.vesw_id, json_of(counts));
      continue;
    }
    text += fmt::format("{}: {}, mtu {}, link address {}, ", vnic.name, vnic.is_up ? "up" : "down",
                        vnic.mtu, mac_text(vnic.mac));
    text += vnic.vesw_id == 0 ? std::string{"of no virtual switch\n"}
                              : fmt::format("virtual switch {}\n", vnic.vesw_id);
    text += indented(counts);
  }
  const auto counts = named(port.counters);
  if (is_json) {
    return fmt::format(R"({{"link": "{}", "lid": {}, "announced": {}, "mad_qp": {}, )"
                       R"("packet_qp": {}, "interfaces": [{}], "port": {}}})"
                       "\n",
                       port.is_omni_path ? "opa" : "infiniband", port.lid.value(),
                       port.is_announced, port.mad_qp.value(), port.packet_qp.value(), text,
                       json_of(counts));
  }
  return fmt::format("{} with LID {}, {}\n{}{}", port.is_omni_path ? "Omni-Path port" : "port",
                     port.is_omni_path ? fmt::format("{:#08x}", port.lid.value())
                                       : std::to_string(port.lid.value()),
                     port.is_announced ? "announced" : "not announced", indented(counts), text);
}

}  // namespace weft::programs::vnic
