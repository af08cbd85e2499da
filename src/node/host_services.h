#pragma once

// Kernel-side RDMA services of a host besides its agents: an SA client per port, the resolver of IP
// addresses (docs/ARCHITECTURE.md, decision 16), and the connection managers. Pure, not
// thread-safe.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/identifiers.h"
#include "base/ip_address.h"
#include "base/keys.h"
#include "base/result.h"
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
#include "sa/local_service.h"
#include "sa/resolver.h"
#include "sa/sa_client.h"

namespace weft::node {

/// QPN of a port's IPoIB interface; ports are counted over all HCAs of the host. It belongs to the
/// host's own process slot 0 (base/process_slot.h). Virtual functions (`function` is 1 and up)
/// share their port's QPNs, and have one each.
[[nodiscard]] constexpr Qpn ipoib_qpn(std::uint32_t port_of_host, std::uint32_t function = 0) {
  constexpr std::uint32_t kFirst = 0x100;  // policy, as what lies between functions
  return Qpn{kFirst * (function + 1) + port_of_host};
}

/// The PortKey that SA clients use is the port's index in the tables.
[[nodiscard]] constexpr sa::PortKey key_of(fabric::PortIndex port) {
  return sa::PortKey{port.value()};
}
[[nodiscard]] constexpr fabric::PortIndex port_of(sa::PortKey key) {
  return fabric::PortIndex{key.value()};
}

/// A host's index in the tables, and its position among the hosts of the topology.
struct HostPosition {
  fabric::NodeIndex node{};
  std::uint32_t position{};
  std::uint64_t seed{};  ///< for values that peers must not be able to guess
};

/// The services of one host.
class HostServices {
 public:
  /// All arguments must outlive it. `wake` is called when handle_timeout() is due.
  HostServices(const fabric::TablesBuilder& tables, ManagementPlane& plane,
               const fabric::Topology& topology, const HostPosition& place,
               std::function<void()> wake, Instant now);
  ~HostServices();

  [[nodiscard]] fabric::NodeIndex node() const { return place_.node; }
  /// All ports, in the order of the host's HCAs.
  [[nodiscard]] std::vector<fabric::PortIndex> ports() const;
  /// The port must belong to this host (asserted).
  [[nodiscard]] sa::SaClient& sa(fabric::PortIndex port) { return *at(port).sa; }
  [[nodiscard]] mad::ManagementInterface& gsi(fabric::PortIndex port) { return *at(port).gsi; }
  /// The port's attributes as its SA client knows them: LID, GIDs, P_Keys, SM.
  [[nodiscard]] const sa::LocalPort& local_port(fabric::PortIndex port) {
    return at(port).sa->port();
  }
  [[nodiscard]] sa::Resolver& resolver() { return resolver_; }
  [[nodiscard]] const sa::Resolver& resolver() const { return resolver_; }
  /// An interface that a program of the host carries by a QP of its own at the port (`ib0` of `weft
  /// net`, or a child of it). Its neighbours are asked of the program.
  struct Carried {
    fabric::PortIndex port{};
    PKey pkey{};
    std::vector<InterfaceAddress> addresses{};
    std::function<void(const IpAddress& neighbor, Duration within)> ask{};
  };
  /// From now on. InvalidArgument: the port is no member of the partition.
  [[nodiscard]] Result<void> set_carried(Carried carried);
  /// The groups that the interface is a member of to send alone. SA has them by the program's MADs,
  /// and the host stays a member of each until another call, or drop_carried(), leaves it out.
  void hold_groups(fabric::PortIndex port, PKey pkey, std::span<const Gid> mgids, Instant now);
  void drop_carried(fabric::PortIndex port, PKey pkey, Instant now);
  /// The program's answer. Not trusted.
  void take_neighbor(fabric::PortIndex port, PKey pkey, const IpAddress& neighbor, const Gid& gid);
  /// Resolvers on this host are asked for paths from now on, by `link`.
  void use_local_service(std::unique_ptr<sa::LocalServiceLink> link);
  /// Null: no resolver is ever asked.
  [[nodiscard]] sa::LocalService* local_service() { return local_service_.get(); }
  [[nodiscard]] cm::RdmaCm& rdma_cm() { return connections_.rdma_cm(); }
  [[nodiscard]] cm::ConnectionManager& connections() { return connections_.connections(); }
  [[nodiscard]] const cm::ConnectionManager& connections() const {
    return connections_.connections();
  }

  /// Applies changes of the ports since the last call. Returns true if there were any.
  bool update_ports(Instant now);
  void handle_datagram(fabric::PortIndex port, const mad::ReceivedDatagram& datagram, Instant now);
  void handle_timeout(Instant now);
  [[nodiscard]] Instant deadline() const;

 private:
  struct Port {
    fabric::PortIndex index;
    std::uint32_t port_of_host{};
    PKey pkey{};  // of its IPoIB interface
    Qpn qpn{};    // of that, too
    mad::ManagementInterface* gsi{};
    std::uint32_t snooper{};  // received MADs may change deadlines
    std::unique_ptr<sa::SaClient> sa;
  };

  struct Holding {
    Carried carried;
    std::map<Gid, sa::MembershipId> groups{};
  };

  [[nodiscard]] Port& at(fabric::PortIndex port);
  [[nodiscard]] Holding* holding(fabric::PortIndex port, PKey pkey);
  void ask_programs(Instant now);
  void set_up_interface(Port& port, Instant now);

  const fabric::TablesBuilder& tables_;
  ManagementPlane& plane_;
  const fabric::Topology& topology_;
  HostPosition place_;
  std::function<void()> wake_;
  std::unique_ptr<sa::LocalServiceLink> local_service_link_;
  std::unique_ptr<sa::LocalService> local_service_;  // before the SA clients, which ask it
  std::vector<Port> ports_;
  std::vector<Holding> holdings_;
  sa::Resolver resolver_;  // after ports_: it must be destroyed before the SA clients
  ConnectionServices connections_;
};

/// The services of all hosts that have used them: made when they are first asked for, or when a
/// neighbour asks for an address of theirs.
class HostServicesTable final : private carriage::DatagramSink {
 public:
  /// All arguments must outlive it. It becomes the plane's datagram sink. `seed`: see HostPosition.
  HostServicesTable(const fabric::TablesBuilder& tables, ManagementPlane& plane,
                    const fabric::Topology& topology, std::uint64_t seed);

  /// Registers another owner of full memberships: these are kept when the last user of an SA client
  /// leaves. Call it before the first host is created.
  using OtherOwner = std::function<bool(fabric::PortIndex port, const Gid& mgid)>;
  void set_other_owner(OtherOwner other) { other_owner_ = std::move(other); }
  /// By what the services of each host, those that come as well, reach its resolvers.
  using LocalServiceLinks =
      std::function<std::unique_ptr<sa::LocalServiceLink>(fabric::NodeIndex host)>;
  void set_local_services(LocalServiceLinks links);
  /// Whether the address is one of the host's port, or of an interface that a program carries at
  /// it; also where the host's services are not created yet.
  [[nodiscard]] bool has_address(fabric::PortIndex port, const IpAddress& address);
  /// Null: they are not created yet.
  [[nodiscard]] const HostServices* find(fabric::NodeIndex node) const;
  /// True if users of the port's SA client hold a full membership.
  [[nodiscard]] bool holds_membership(fabric::PortIndex port, const Gid& mgid) const;

  /// Returns a host's services, created if necessary, and schedules them for run(). `node` must be
  /// a host that is not removed (asserted).
  [[nodiscard]] HostServices& host(fabric::NodeIndex node, Instant now);
  [[nodiscard]] bool has(fabric::NodeIndex node) const { return hosts_.contains(node); }
  [[nodiscard]] std::size_t size() const { return hosts_.size(); }
  /// The host's devices are about to go: its programs hear of it by RDMA-CM, and the peers of their
  /// connections by MADs, which the plane is to carry before remove().
  void remove_devices(fabric::NodeIndex node, Instant now);
  /// Call before the host's node is removed.
  void remove(fabric::NodeIndex node);
  /// Schedules a host for run(). Call it after using a stored reference.
  void wake(fabric::NodeIndex node);

  /// Runs all hosts that are due.
  void run(Instant now);
  /// When run() must be called next.
  [[nodiscard]] Instant deadline() const;

 private:
  void take(fabric::PortIndex at, const mad::ReceivedDatagram& datagram, Instant now) override;
  void take_at(fabric::PortIndex at, const mad::ReceivedDatagram& datagram, Instant now);
  [[nodiscard]] bool is_for(fabric::PortIndex port, const mad::ReceivedDatagram& datagram) const;
  [[nodiscard]] bool is_solicitation_for(fabric::PortIndex at, ByteSpan payload);
  [[nodiscard]] bool has_from_topology(fabric::PortIndex port, const IpAddress& address);
  [[nodiscard]] std::uint32_t position_of(fabric::NodeIndex node);
  void schedule(fabric::NodeIndex node, Instant deadline);

  const fabric::TablesBuilder& tables_;
  ManagementPlane& plane_;
  const fabric::Topology& topology_;
  std::uint64_t seed_;
  OtherOwner other_owner_;
  LocalServiceLinks local_service_links_;
  std::vector<std::uint32_t> positions_;  // by node, of hosts
  std::uint32_t hosts_counted_{};
  std::vector<fabric::NodeIndex> runnable_;
  std::set<fabric::NodeIndex> is_runnable_;
  std::map<fabric::NodeIndex, Instant> deadlines_;
  std::set<std::pair<Instant, fabric::NodeIndex>> schedule_;
  std::uint64_t ports_as_of_{};
  // declared last: hosts call wake() until they are destroyed
  std::map<fabric::NodeIndex, std::unique_ptr<HostServices>> hosts_;
};

}  // namespace weft::node
