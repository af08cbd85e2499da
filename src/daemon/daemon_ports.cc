// Changes of ports, cables and nodes at run time: `weft link`, `weft port`, `weft node`.

#include <fmt/format.h>

#include "daemon/daemon_impl.h"
#include "node/node_change.h"
#include "node/port_change.h"
#include "os/clock.h"

namespace weft::daemon {

void Daemon::Impl::change_port(Client& client, const uabi::ChangePort& request) {
  if (request.version != uabi::kVersion) {
    client.refuse(fmt::format("this weft uses version {} of the control protocol, the daemon {}",
                              request.version, uabi::kVersion));
    return;
  }
  const auto change = node::read_port_change(request.change);
  const auto ports = fabric_->find_ports(request.port);
  if (!change || !ports) {
    client.refuse(change ? ports.error().reason : change.error().reason);
    return;
  }
  std::string refusal;
  for (const fabric::PortIndex port : *ports) {
    const std::string name = fabric::port_name(view(), port);
    if (const auto changed = fabric_->change_port(port, *change, os::now()); !changed) {
      refusal = fmt::format("{}: {}", name, changed.error().reason);
      break;
    }
    log_.write(fmt::format("port {}: {}", name, request.change));
  }
  publish();
  run_management();  // lets traps be sent
  if (refusal.empty()) {
    answer(client, "");
  } else {
    client.refuse(refusal);
  }
}

void Daemon::Impl::change_node(Client& client, const uabi::ChangeNode& request) {
  if (request.version != uabi::kVersion) {
    client.refuse(fmt::format("this weft uses version {} of the control protocol, the daemon {}",
                              request.version, uabi::kVersion));
    return;
  }
  const auto change = node::read_node_change(request.change);
  const auto changed = change ? fabric_->change_node(*change, os::now())
                              : Result<void>{std::unexpected(change.error())};
  if (!changed) {
    client.refuse(changed.error().reason);
    return;
  }
  log_.write(fmt::format("node: {}", request.change));
  follow_change_of_nodes();
  answer(client, "");
}

void Daemon::Impl::follow_change_of_nodes() {
  publish();            // programs of a removed host see their ports go down
  settle_management();  // traps, and usually the sweep that they trigger
  drop_programs_of_removed_hosts();
  follow_hosts();
}

/// Disconnects the programs of removed hosts, which ends their devices. They have been notified
/// that their ports are down.
void Daemon::Impl::drop_programs_of_removed_hosts() {
  const fabric::TablesBuilder& tables = fabric_->builder();
  std::vector<Client*> dropped;
  for (const auto& [process, program] : programs_) {
    if (tables.node(process.host).is_removed()) {
      dropped.push_back(program);
    }
  }
  for (const auto& [client, channel] : open_ports_) {
    if (tables.node(tables.port(channel->file().port()).node).is_removed()) {
      dropped.push_back(client);
    }
  }
  for (const auto& [client, program] : omni_path_programs_) {
    if (tables.node(tables.port(management().omni_path_users().port(program.channel->user())).node)
            .is_removed()) {
      dropped.push_back(client);
    }
  }
  for (Client* const client : dropped) {
    client->refuse("the node was removed from the fabric");
  }
  for (std::uint32_t node = 0; node < tables.nodes().size(); ++node) {
    if (tables.nodes()[node].is_removed()) {
      netlink_->close_host(fabric::NodeIndex{node});
    }
  }
}

}  // namespace weft::daemon
