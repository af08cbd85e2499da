#pragma once

// What a host's kernel side keeps for RDMA besides its agents: an SA client a port, the resolver of
// IP addresses (docs/ARCHITECTURE.md, decision 16) and the connection managers. Pure. One thread.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/identifiers.h"
#include "base/time.h"
#include "carriage/management_network.h"
#include "fabric/addresses.h"
#include "fabric/tables.h"
#include "fabric/topology.h"
#include "mad/datagram.h"
#include "mad/management_interface.h"
#include "node/connection_services.h"
#include "node/management_plane.h"
#include "sa/local_port.h"
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

/// The place of a host in its topology: hosts come in its order.
struct HostPlace {
  fabric::NodeIndex node{};
  std::uint32_t position{};
  std::uint64_t seed{};  ///< of what peers should not be able to guess
};

class HostServices {
 public:
  /// All must outlive it; `wake` is called when handle_timeout() is due.
  HostServices(const fabric::TablesBuilder& tables, ManagementPlane& plane,
               const fabric::Topology& topology, const HostPlace& place, std::function<void()> wake,
               Instant now);
  ~HostServices();

  [[nodiscard]] fabric::NodeIndex node() const { return place_.node; }
  /// In the order of the host's HCAs and their ports.
  [[nodiscard]] std::vector<fabric::PortIndex> ports() const;
  /// Of a port of this host (asserted).
  [[nodiscard]] sa::SaClient& sa(fabric::PortIndex port) { return *at(port).sa; }
  [[nodiscard]] mad::ManagementInterface& gsi(fabric::PortIndex port) { return *at(port).gsi; }
  /// The port as SA clients see it: LID, GIDs, P_Keys, SM.
  [[nodiscard]] const sa::LocalPort& local_port(fabric::PortIndex port) {
    return at(port).sa->port();
  }
  [[nodiscard]] sa::Resolver& resolver() { return resolver_; }
  [[nodiscard]] cm::RdmaCm& rdma_cm() { return connections_.rdma_cm(); }
  [[nodiscard]] cm::ConnectionManager& connections() { return connections_.connections(); }

  /// Takes what has happened to the ports since the last time. True: something has.
  bool update_ports(Instant now);
  void handle_datagram(fabric::PortIndex port, const mad::ReceivedDatagram& datagram, Instant now);
  void handle_timeout(Instant now);
  [[nodiscard]] Instant deadline() const;

 private:
  struct Port {
    fabric::PortIndex index;
    std::uint32_t port_of_host{};
    PKey pkey{};  // of its interface
    mad::ManagementInterface* gsi{};
    std::uint32_t snooper{};  // MADs that come may change deadlines
    std::unique_ptr<sa::SaClient> sa;
  };

  [[nodiscard]] Port& at(fabric::PortIndex port);
  [[nodiscard]] bool has_changed(const Port& port) const;
  void set_up_interface(Port& port, Instant now);

  const fabric::TablesBuilder& tables_;
  ManagementPlane& plane_;
  const fabric::Topology& topology_;
  HostPlace place_;
  std::vector<Port> ports_;
  sa::Resolver resolver_;  // before its SA clients
  ConnectionServices connections_;
};

/// The services of all hosts that have used them: made when they are first asked for, or when a
/// neighbour asks for an address of theirs.
class HostServicesTable final : private carriage::DatagramSink {
 public:
  /// All must outlive it. It takes the plane's datagrams. `seed`: as HostPlace has it.
  HostServicesTable(const fabric::TablesBuilder& tables, ManagementPlane& plane,
                    const fabric::Topology& topology, std::uint64_t seed);

  /// Who else makes ports of hosts full members of groups: those stay members when the last user of
  /// an SA client leaves. Before the first host.
  using OtherHolder = std::function<bool(fabric::PortIndex port, const Gid& mgid)>;
  void share_memberships_with(OtherHolder other) { other_holder_ = std::move(other); }
  /// The port's SA client has users who are full members.
  [[nodiscard]] bool holds_membership(fabric::PortIndex port, const Gid& mgid) const;

  /// Made now if need be; run() looks at it next. `node` is a host that is not removed (asserted).
  [[nodiscard]] HostServices& host(fabric::NodeIndex node, Instant now);
  [[nodiscard]] bool has(fabric::NodeIndex node) const { return hosts_.contains(node); }
  [[nodiscard]] std::size_t size() const { return hosts_.size(); }
  /// Before the host's node is removed.
  void remove(fabric::NodeIndex node);
  /// Who keeps a reference calls it after using it.
  void wake(fabric::NodeIndex node);

  /// Gives all that are due their turn.
  void run(Instant now);
  /// When run() is due again.
  [[nodiscard]] Instant deadline() const;

 private:
  void take(fabric::PortIndex at, const mad::ReceivedDatagram& datagram, Instant now) override;
  [[nodiscard]] bool asks_for(fabric::PortIndex at, ByteSpan payload);
  [[nodiscard]] std::uint32_t position_of(fabric::NodeIndex node);
  void schedule(fabric::NodeIndex node, Instant deadline);

  const fabric::TablesBuilder& tables_;
  ManagementPlane& plane_;
  const fabric::Topology& topology_;
  std::uint64_t seed_;
  OtherHolder other_holder_;
  std::vector<std::uint32_t> positions_;  // by node, of hosts
  std::uint32_t hosts_counted_{};
  std::vector<fabric::NodeIndex> awake_;
  std::set<fabric::NodeIndex> is_awake_;
  std::map<fabric::NodeIndex, Instant> deadlines_;
  std::set<std::pair<Instant, fabric::NodeIndex>> schedule_;
  std::uint64_t ports_as_of_{};
  std::map<fabric::NodeIndex, std::unique_ptr<HostServices>> hosts_;  // last: they wake the table
};

}  // namespace weft::node
