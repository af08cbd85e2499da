#include "daemon/status.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "daemon/function_report.h"
#include "verbs/mtu.h"
#include "wire/address_text.h"

namespace weft::daemon {
namespace {

using nlohmann::json;

[[nodiscard]] json counters_json(const fabric::PortCounters& counters) {
  return {
      {"xmit_packets",            counters.xmit_packets           },
      {"xmit_data",               counters.xmit_data              },
      {"rcv_packets",             counters.rcv_packets            },
      {"rcv_data",                counters.rcv_data               },
      {"unicast_xmit_packets",    counters.unicast_xmit_packets   },
      {"unicast_rcv_packets",     counters.unicast_rcv_packets    },
      {"multicast_xmit_packets",  counters.multicast_xmit_packets },
      {"multicast_rcv_packets",   counters.multicast_rcv_packets  },
      {"xmit_discards",           counters.xmit_discards          },
      {"xmit_wait",               counters.xmit_wait              },
      {"rcv_errors",              counters.rcv_errors             },
      {"rcv_switch_relay_errors", counters.rcv_switch_relay_errors},
      {"link_downed",             counters.link_downed            }
  };
}

[[nodiscard]] json name_json(const fabric::TablesView& view, fabric::PortIndex index) {
  const fabric::PortRecord& port = view.port(index);
  return {
      {"node", view.name(view.node(port.node))},
      {"port", port.number.value()},
      {"name", fabric::port_name(view, index)}
  };
}

[[nodiscard]] json port_json(const fabric::TablesView& view, fabric::PortIndex index,
                             const StatusReport& report) {
  const fabric::PortRecord& port = view.port(index);
  json entry = name_json(view, index);
  entry["kind"] = port.is_switch_port() ? "switch" : "host";
  if (!port.is_switch_port()) {
    entry["hca"] = view.name(view.hca(port.hca));
  }
  entry["guid"] = fmt::format("{:#018x}", port.guid.value());
  entry["state"] = verbs::name_of(port.state);
  entry["link"] = fabric::key_of(port.link_type);
  entry["lid"] = port.lid.value();
  entry["lmc"] = port.lmc;
  entry["mtu"] = verbs::bytes(port.active_mtu);
  entry["rate_mbps"] = port.rate_mbps;
  entry["delay_ns"] = port.delay_ns;
  if (const auto gids = view.gids(port); !gids.empty()) {
    entry["gid"] = wire::address_text(gids.front().octets());
  }
  if (std::ranges::find(report.unassigned_functions, index) != report.unassigned_functions.end()) {
    entry["function_of"] = json{};
  } else if (report.shared_ports != nullptr && report.shared_ports->function_at(index)) {
    entry["function_of"] = fabric::port_name(view, report.shared_ports->physical_of(index));
  }
  entry["peer"] = port.peer == fabric::kNoPort ? json{} : name_json(view, port.peer);
  return entry;
}

}  // namespace

std::string status_json(const fabric::TablesView& view, const StatusReport& report) {
  json status{
      {"fabric",      report.fabric    },
      {"log",         report.log       },
      {"generation",  view.generation()},
      {"ports",       json::array()    },
      {"programs",    json::array()    },
      {"connections", json::array()    },
      {"managers",    json::array()    },
      {"offences",    json::array()    }
  };
  const fabric::CounterSum* const counters = report.counters;
  for (std::uint32_t i = 0; i < view.ports().size(); ++i) {
    if (view.node(view.ports()[i].node).is_removed()) {
      continue;
    }
    json entry = port_json(view, fabric::PortIndex{i}, report);
    if (counters != nullptr) {
      entry["counters"] = counters_json(counters->ports.at(i));
    }
    status["ports"].push_back(std::move(entry));
  }
  for (const ProgramStatus& program : report.programs) {
    status["programs"].push_back({
        {"host", view.name(view.node(program.process.host))},
        {"slot", program.process.slot                      },
        {"pid",  program.pid                               },
        {"name", program.program                           }
    });
  }
  for (const ConnectionStatus& connection : report.connections) {
    status["connections"].push_back({
        {"host",        view.name(view.node(connection.host))},
        {"pid",         connection.pid                       },
        {"state",       cm::name_of(connection.id.state)     },
        {"source",      to_string(connection.id.source)      },
        {"destination", to_string(connection.id.destination) }
    });
  }
  for (const ManagerStatus& manager : report.managers) {
    status["managers"].push_back({
        {"host",           view.name(view.node(manager.host))},
        {"rdma_cm_ids",    manager.rdma_cm_ids               },
        {"connection_ids", manager.connection_ids            }
    });
  }
  for (const Offence& offence : report.offences) {
    status["offences"].push_back({
        {"host",    offence.offender.host   },
        {"slot",    offence.offender.slot   },
        {"pid",     offence.offender.pid    },
        {"name",    offence.offender.program},
        {"what",    offence.what            },
        {"count",   offence.count           },
        {"said_by", offence.said_by         }
    });
  }
  if (report.shared_ports != nullptr) {
    status["shared_ports"] = shared_ports_json(view, *report.shared_ports);
  }
  if (counters != nullptr) {
    status["unattributed_packets"] = counters->overflow_packets;
    status["refused_counter_entries"] = counters->refused_entries;
  }
  // replaces invalid UTF-8 in untrusted names
  return status.dump(-1, ' ', true, json::error_handler_t::replace);
}

std::string faults_json(const fabric::TablesView& view, std::span<const node::FaultRule> rules,
                        const fabric::FaultCounters& counters) {
  json list = json::array();
  for (const node::FaultRule& rule : rules) {
    const fabric::FaultCount count = counters.read(rule.slot);
    json links = json::array();
    for (const fabric::PortIndex egress : rule.egresses) {
      links.push_back({
          {"from", fabric::port_name(view,                     egress)                },
          {"to",   view.port(egress).peer == fabric::kNoPort
                     ? std::string{}
                     : fabric::port_name(view, view.port(egress).peer)}
      });
    }
    list.push_back({
        {"number",    rule.number                                                       },
        {"rule",      fabric::to_string(rule.description)                               },
        {"kind",      fabric::name_of(rule.description.kind)                            },
        {"links",     links                                                             },
        {"has_ended", rule.has_ended                                                    },
        {"is_spent",  rule.description.count != 0 && count.hit >= rule.description.count},
        {"matched",   count.matched                                                     },
        {"hit",       count.hit                                                         }
    });
  }
  return list.dump(-1, ' ', true, json::error_handler_t::replace);
}

}  // namespace weft::daemon
