#pragma once

// What a host's kernel side keeps for RDMA besides its agents: an SA client a port and the resolver
// of IP addresses (DESIGN.md, decision 16). The connection manager will be here, too. Pure. One
// thread.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/identifiers.h"
#include "base/ip_address.h"
#include "base/result.h"
#include "base/time.h"
#include "fabric/addresses.h"
#include "fabric/tables.h"
#include "fabric/topology.h"
#include "mad/datagram.h"
#include "node/management_plane.h"
#include "sa/resolver.h"
#include "sa/sa_client.h"

namespace weft::node {

/// The QPN of the IPoIB interface of a host's port, counted over its HCAs: one of the host's own,
/// in process slot 0 (base/process_slot.h).
[[nodiscard]] constexpr Qpn ipoib_qpn(std::uint32_t port_of_host) {
  constexpr std::uint32_t kFirst = 0x100;  // policy
  return Qpn{kFirst + port_of_host};
}

[[nodiscard]] constexpr sa::PortKey key_of(fabric::PortIndex port) {
  return sa::PortKey{port.value()};
}
[[nodiscard]] constexpr fabric::PortIndex port_of(sa::PortKey key) {
  return fabric::PortIndex{key.value()};
}

class HostServices {
 public:
  /// `plane` and the tables must outlive it; `wake` is called when run() is due.
  HostServices(const fabric::TablesBuilder& tables, ManagementPlane& plane,
               const fabric::Topology& topology, fabric::NodeIndex host, std::function<void()> wake,
               Instant now);

  [[nodiscard]] fabric::NodeIndex host() const { return host_; }
  /// In the order of the host's HCAs and their ports.
  [[nodiscard]] std::vector<fabric::PortIndex> ports() const;
  [[nodiscard]] sa::SaClient& sa(fabric::PortIndex port);
  [[nodiscard]] sa::Resolver& resolver() { return resolver_; }
  /// Who speaks MADs there: the connection manager registers with it.
  [[nodiscard]] mad::ManagementInterface& gsi(fabric::PortIndex port);
  /// The port as SA clients see it: LID, GIDs, P_Keys, SM.
  [[nodiscard]] const sa::LocalPort& local_port(fabric::PortIndex port) const;

  /// What happened to the ports since the last time.
  void update_ports(Instant now);
  void handle_datagram(fabric::PortIndex port, const mad::ReceivedDatagram& datagram, Instant now);
  void handle_timeout(Instant now);
  [[nodiscard]] Instant deadline() const;
  /// Whatever is ready leaves by the plane.
  void transmit(Instant now);
};

/// The services of all hosts that have used them, made when they are first asked for, or when
/// somebody asks the network for one of their addresses.
class HostServicesTable final : private DatagramSink {
 public:
  HostServicesTable(const fabric::TablesBuilder& tables, ManagementPlane& plane,
                    const fabric::Topology& topology);

  /// Made now if need be; run() looks at it next. `host` is a host that is not removed (asserted).
  [[nodiscard]] HostServices& host(fabric::NodeIndex host, Instant now);
  [[nodiscard]] bool has(fabric::NodeIndex host) const { return hosts_.contains(host); }
  /// Before the host's node is removed.
  void remove(fabric::NodeIndex host);
  /// Who keeps a reference calls it after using it.
  void wake(fabric::NodeIndex host);

  /// Gives all that are due their turn; call it before ManagementPlane::run() and as long as
  /// deadline() is not later than `now`.
  void run(Instant now);
  [[nodiscard]] Instant deadline() const;
};

}  // namespace weft::node
