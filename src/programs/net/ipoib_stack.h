#pragma once

// A host's IPoIB interface, whole but for what carries it: neighbours (sa/ipoib_interface.h), IP
// packets (ulp/ipoib/interface.h), and a client of SA for paths and groups (RFC 4391). Pure, not
// thread-safe. The owner calls handle_timeout() after any other call, then takes what is to be sent
// and delivered until there is nothing, and comes back at deadline().

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/flags.h"
#include "base/identifiers.h"
#include "base/ip_address.h"
#include "base/keys.h"
#include "base/time.h"
#include "mad/datagram.h"
#include "mad/management_interface.h"
#include "sa/ip_interface.h"
#include "sa/ipoib_interface.h"
#include "sa/local_port.h"
#include "sa/sa_client.h"
#include "ulp/ipoib/interface.h"

namespace weft::programs::net {

struct IpoibStackOptions {
  Qpn qpn{};  ///< of the UD QP
  std::vector<InterfaceAddress> addresses{};
  std::uint32_t mtu{};         ///< wanted; 0: the link's
  std::uint32_t parent_mtu{};  ///< of a child interface; 0: it is none
  ipoib::ConnectedMode mode{ipoib::ConnectedMode::None};
  bool partial_checksums{};  ///< connections carry them
};

/// Of what the stack sends: bit 31 selects the Q_Key of the QP (base/keys.h), which alone keeps it.
inline constexpr QKey kQKeyOfQp{0x8000'0000};

class IpoibStack {
 public:
  IpoibStack(const IpoibStackOptions& options, const sa::LocalPort& port, Instant now);

  /// The port has changed, or SA asks to register anew (LocalPort::reregistrations).
  void set_port(const sa::LocalPort& port, Instant now);
  /// The interface has these addresses now.
  void set_addresses(std::vector<InterfaceAddress> addresses, Instant now) {
    neighbors_.set_addresses(std::move(addresses), now);
  }
  /// The same groups as that one, whose place it takes.
  void listen_as(const IpoibStack& other, Instant now) {
    interface_.groups().listen_as(other.interface_.groups(), now);
  }
  /// Of a child interface.
  void set_parent_mtu(std::uint32_t mtu) { interface_.set_parent_mtu(mtu); }
  /// A MAD from SA. Not trusted.
  void handle_mad(const mad::MadAddress& source, ByteSpan mad, Instant now);
  /// A packet of the UD QP. Not trusted.
  void handle_datagram(const mad::ReceivedDatagram& datagram, Instant now);
  /// What came over a connection of connected mode (RFC 4755). Not trusted.
  void handle_connected(ipoib::ConnectionId id, ByteSpan payload) {
    interface_.handle_connected(id, payload);
  }
  /// A connection that this end has made is lost: the way there may be another now.
  void connection_lost(ipoib::ConnectionId id, Instant now);
  /// An IP packet of the host.
  void transmit(ByteSpan packet, Instant now);
  /// See ipoib::Interface.
  [[nodiscard]] bool transmit_partial(ByteSpan packet, ipoib::PartialChecksum checksum,
                                      Instant now) {
    return interface_.transmit_partial(packet, checksum, now);
  }
  /// RDMA-CM of the host wants to know who has the address (R-IPOIB-28), until then.
  void find_neighbor(const IpAddress& address, Instant until, Instant now);
  void handle_timeout(Instant now);
  /// Leaves the groups, for whoever ends in order.
  void stop(Instant now);

  [[nodiscard]] Instant deadline() const;
  [[nodiscard]] std::optional<mad::MadPacket> poll_mad(Instant now);
  [[nodiscard]] std::optional<mad::Datagram> poll_datagram();
  /// IP packets for the host, as they come, and those that the stack makes itself.
  void deliver_to(ipoib::Interface::Deliver deliver) { interface_.deliver_to(std::move(deliver)); }
  [[nodiscard]] std::optional<ipoib::Packet> poll_delivery();
  /// Who find_neighbor() has found.
  [[nodiscard]] std::optional<sa::IpInterface::Found> poll_neighbor();

  /// What the driver of connections is to do, and what it tells.
  [[nodiscard]] ipoib::ConnectionTable& connections() { return interface_.connections(); }
  /// Who sends over them what need not wait.
  void send_connected_by(ipoib::Interface::SendConnected send) {
    interface_.send_connected_by(std::move(send));
  }

  /// The groups, with their MLIDs, that the UD QP has to be attached to.
  [[nodiscard]] std::map<Gid, Lid> attachments() const;
  /// Those that it is a member of to send alone, which SA knows by its MADs only.
  [[nodiscard]] std::vector<Gid> sent_to() const;
  /// None: not a member of the broadcast group yet.
  [[nodiscard]] std::optional<QKey> qkey() const;
  [[nodiscard]] PKey pkey() const;
  [[nodiscard]] bool is_up() const { return interface_.is_up(); }
  [[nodiscard]] std::uint32_t mtu() const { return interface_.mtu(); }
  /// For who shows them.
  [[nodiscard]] const sa::IpoibInterface& neighbors() const { return neighbors_; }
  [[nodiscard]] const ipoib::Interface& interface() const { return interface_; }

 private:
  /// How the interface sees the neighbours.
  class NeighborLink final : public ipoib::Link {
   public:
    explicit NeighborLink(sa::IpoibInterface& neighbors) : neighbors_(neighbors) {}
    [[nodiscard]] std::optional<wire::McMemberRecord> group() const override;
    [[nodiscard]] std::optional<wire::IpoibHardwareAddress> find(const IpAddress& address,
                                                                 Instant now) const override;
    bool solicit(const IpAddress& address, Instant until, Instant now) override;
    /// On the link by a prefix of the interface. A TUN says nothing of routers.
    [[nodiscard]] std::optional<IpAddress> next_hop(const IpAddress& destination) const override;
    [[nodiscard]] bool is_broadcast(const IpAddress& destination) const override;

   private:
    sa::IpoibInterface& neighbors_;
  };
  struct Membership {
    sa::MembershipId id{};
    Flags<wire::JoinState> join_state{};
    std::optional<wire::McMemberRecord> record{};
  };

  void announce_when_up(Instant now);
  void answer_who_asked(Instant now);
  void run_groups(Instant now);
  void join(const ipoib::GroupJoin& wanted, Instant now);
  void take_membership(const Gid& mgid, sa::MembershipId id,
                       const sa::Answer<wire::McMemberRecord>& answer, Instant now);
  void leave(const Gid& mgid, Instant now);
  void run_paths(Instant now);
  void ask_path(const ipoib::PathTable::Query& query, Instant now);
  void drop_path(const Gid& dgid, Instant now);
  [[nodiscard]] mad::MadAddress group_address(const wire::McMemberRecord& group) const;
  [[nodiscard]] mad::MadAddress neighbor_address(const ipoib::PathTable::Send& send) const;

  mad::ManagementInterface gsi_;
  sa::SaClient sa_;
  sa::IpoibInterface neighbors_;
  NeighborLink link_;
  ipoib::Interface interface_;
  Qpn qpn_;
  bool was_up_{};
  std::map<Gid, Membership> memberships_;  // beside the broadcast group
  std::deque<mad::Datagram> out_;
  std::map<IpAddress, Instant> wanted_;  // by RDMA-CM, until when
  std::deque<sa::IpInterface::Found> found_;
};

}  // namespace weft::programs::net
