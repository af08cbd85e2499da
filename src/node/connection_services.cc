#include "node/connection_services.h"

#include "base/random.h"

namespace weft::node {
namespace {

[[nodiscard]] cm::PortKey key_of(fabric::PortIndex port) { return cm::PortKey{port.value()}; }

[[nodiscard]] cm::PortAddress address_of(const ConnectionServices::Port& port) {
  return {{port.sa.port()}, port.number, port.ca_guid, 0};
}

}  // namespace

ConnectionServices::ConnectionServices(sa::Resolver& resolver, std::uint64_t seed)
    // Programs' QPNs are reused before TimeWait ends, so new connections may start at once, as on
    // Linux (R-CM-11).
    : connections_({.seed = Random{seed}(),
                    .holds_time_wait = false,
                    .listener_grace = Duration::seconds(2)}),
      rdma_cm_(connections_, resolver, Random{~seed}()) {}

void ConnectionServices::set_port(const Port& port) {
  if (ports_.insert(port.index).second) {
    // Registration fails only if a program has registered for the class by umad; then that program
    // is the host's CM.
    if (!connections_.add_port(key_of(port.index), port.gsi, address_of(port))) {
      ports_.erase(port.index);
      return;
    }
    rdma_cm_.add_port(key_of(port.index),
                      {.sa = port.sa, .device = std::string{port.device}, .number = port.number});
    return;
  }
  static_cast<void>(connections_.update_port(key_of(port.index), address_of(port)));
}

}  // namespace weft::node
