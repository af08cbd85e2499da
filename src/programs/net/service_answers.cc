// What the service says to who asks it by its control socket (`weft net addr`, `neigh`, `stats`).

#include <vector>

#include "os/clock.h"
#include "programs/net/report.h"
#include "programs/net/service.h"

namespace weft::programs::net {
namespace {

void add(std::vector<NamedCount>& all, const ipoib::Counters& of) {
  all.insert(all.end(), {
                            {"tx_packets",           of.tx_packets          },
                            {"tx_bytes",             of.tx_bytes            },
                            {"tx_multicast",         of.tx_multicast        },
                            {"tx_errors",            of.tx_errors           },
                            {"tx_no_route",          of.tx_no_route         },
                            {"tx_unresolved",        of.tx_unresolved       },
                            {"tx_too_big",           of.tx_too_big          },
                            {"tx_fragmented",        of.tx_fragmented       },
                            {"tx_link_down",         of.tx_link_down        },
                            {"tx_partial_checksums", of.tx_partial_checksums},
                            {"rx_packets",           of.rx_packets          },
                            {"rx_bytes",             of.rx_bytes            },
                            {"rx_multicast",         of.rx_multicast        },
                            {"rx_malformed",         of.rx_malformed        },
                            {"rx_unwanted",          of.rx_unwanted         },
                            {"rx_wrong_key",         of.rx_wrong_key        },
                            {"rx_partial_checksums", of.rx_partial_checksums},
  });
}

void add(std::vector<NamedCount>& all, const sa::InterfaceCounters& of) {
  all.insert(all.end(), {
                            {"neigh_solicitations", of.solicitations    },
                            {"neigh_answers",       of.answers          },
                            {"neigh_resolved",      of.resolved         },
                            {"neigh_untrusted",     of.untrusted_answers},
                            {"neigh_misaddressed",  of.misaddressed     },
                            {"neigh_malformed",     of.malformed        },
                            {"neigh_dropped",       of.dropped          },
  });
}

void add(std::vector<NamedCount>& all, const ipoib::GroupCounters& of) {
  all.insert(all.end(), {
                            {"group_joins",   of.joins  },
                            {"group_leaves",  of.leaves },
                            {"group_refused", of.refused},
                            {"group_dropped", of.dropped},
  });
}

void add(std::vector<NamedCount>& all, const ipoib::PathCounters& of) {
  all.insert(all.end(), {
                            {"path_queries",  of.queries },
                            {"path_failures", of.failures},
                            {"path_dropped",  of.dropped },
  });
}

void add(std::vector<NamedCount>& all, const ipoib::ConnectionCounters& of) {
  all.insert(all.end(), {
                            {"connection_connects",   of.connects  },
                            {"connection_accepted",   of.accepted  },
                            {"connection_refused",    of.refused   },
                            {"connection_idle_ended", of.idle_ended},
                            {"connection_dropped",    of.dropped   },
  });
}

/// Of one port, in the same order for each.
[[nodiscard]] std::vector<NamedCount> counts_of(const PortStack& port) {
  std::vector<NamedCount> all;
  const IpoibStack& stack = port.stack();
  add(all, stack.interface().counters());
  add(all, stack.neighbors().counters());
  add(all, stack.interface().groups().counters());
  add(all, stack.interface().paths().counters());
  add(all, stack.interface().connections().counters());
  all.insert(all.end(), {
                            {"qp_refused", port.ud().counters().refused},
                            {"qp_failed",  port.ud().counters().failed }
  });
  if (const ConnectedPort* const connected = port.connected()) {
    all.insert(all.end(), {
                              {"connected_dropped", connected->counters().dropped},
                              {"connected_failed",  connected->counters().failed }
    });
  }
  return all;
}

}  // namespace

std::string Service::answer(std::string_view line) const {
  const bool is_json = line.ends_with(" json");
  const std::string_view asked = line.substr(0, line.find(' '));
  const sa::IpoibInterface& neighbors = stack().neighbors();
  if (asked == "addr") {
    const auto& group = neighbors.group();
    InterfaceView view{.name = options_.name,
                       .is_up = stack().is_up(),
                       .active_port = active().port_of_host() + 1,
                       .mtu = mtu_,
                       .mode = options_.mode,
                       .hardware = neighbors.hardware(),
                       .pkey = stack().pkey(),
                       .broadcast = group ? group->mgid : Gid{},
                       .qkey = stack().qkey(),
                       .client_identifier = ipoib::dhcp_client_identifier(
                           ports_.front()->port_guid(), stack().pkey().value()),
                       .addresses = options_.addresses};
    for (const auto& port : ports_) {
      view.ports.push_back(port->port_of_host() + 1);
    }
    return show_addresses(view, is_json);
  }
  if (asked == "neigh") {
    return show_neighbors(neighbors.neighbors().entries(os::now()), is_json);
  }
  if (asked != "stats") {
    return "this is asked for addr, neigh or stats, each also as json\n";
  }
  std::vector<NamedCount> all = counts_of(*ports_.front());
  for (std::size_t port = 1; port < ports_.size(); ++port) {
    const std::vector<NamedCount> more = counts_of(*ports_[port]);
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i].count += more[i].count;
    }
  }
  return show_counts(all, is_json);
}

}  // namespace weft::programs::net
