// Ports and cables that people change while the fabric runs: `weft link` and `weft port`.

#include <fmt/format.h>

#include "daemon/daemon_impl.h"
#include "host/clock.h"
#include "node/port_change.h"

namespace weft::daemon {
namespace {

/// Policy: what a change of a port costs beyond a message (RequestBudget): a new generation of the
/// tables, for everybody.
constexpr std::int64_t kChangeCost = 128;

}  // namespace

void Daemon::Impl::change_port(Client& client, const uabi::ChangePort& request) {
  client.spend(kChangeCost);
  if (request.version != uabi::kVersion) {
    client.refuse(fmt::format("this weft speaks version {} of the control protocol, the daemon {}",
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
    if (const auto changed = fabric_->change_port(port, *change, host::now()); !changed) {
      refusal = fmt::format("{}: {}", name, changed.error().reason);
      break;
    }
    log_.write(fmt::format("port {}: {}", name, request.change));
  }
  publish();
  run_management();  // traps
  if (refusal.empty()) {
    answer(client, "");
  } else {
    client.refuse(refusal);
  }
}

}  // namespace weft::daemon
