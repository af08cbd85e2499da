#pragma once

// An IPoIB interface: IP packets of a TUN go to neighbours and groups of an InfiniBand partition as
// datagrams or over connections (RFC 4391, RFC 4392, RFC 4755). Neighbours are those that ARP and
// neighbour discovery have found (sa/ipoib_interface.h), which RDMA-CM's resolver uses too. Pure,
// not thread-safe; who drives it asks for actions after each call.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/identifiers.h"
#include "base/ip_address.h"
#include "base/keys.h"
#include "base/time.h"
#include "ulp/ipoib/connection_table.h"
#include "ulp/ipoib/group_table.h"
#include "ulp/ipoib/partial_checksum.h"
#include "ulp/ipoib/path_table.h"
#include "wire/mad/mc_member_record.h"

namespace weft::ipoib {

/// What finds neighbours on the link.
class Link {
 public:
  Link() = default;
  virtual ~Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  /// The broadcast group, once it is joined and while the port is active.
  [[nodiscard]] virtual std::optional<wire::McMemberRecord> group() const = 0;
  [[nodiscard]] virtual std::optional<wire::IpoibHardwareAddress> find(const IpAddress& address,
                                                                       Instant now) const = 0;
  /// Solicits the address until then. False: too many are.
  virtual bool solicit(const IpAddress& address, Instant until, Instant now) = 0;
  /// The neighbour to send to for this destination: itself, or a router. None: no route.
  [[nodiscard]] virtual std::optional<IpAddress> next_hop(const IpAddress& destination) const = 0;
  /// 255.255.255.255, or a subnet's broadcast address.
  [[nodiscard]] virtual bool is_broadcast(const IpAddress& destination) const = 0;
};

struct InterfaceOptions {
  ConnectedMode mode{ConnectedMode::None};
  Qpn qpn{};                              ///< of the UD QP
  std::uint32_t mtu{};                    ///< wanted; 0: the largest of the mode
  std::uint32_t parent_mtu{};             ///< a child's is at most its parent's; 0: it is no child
  std::size_t neighbors_waited_for{256};  ///< policy
  std::size_t packets_of_neighbor{16};    ///< policy
  Duration resolution{Duration::seconds(3)};  ///< policy, as RFC 4861 §10 does
  GroupLimits groups{};
  PathLimits paths{};
  ConnectionLimits connections{};
};

struct Counters {
  std::uint64_t tx_packets{};
  std::uint64_t tx_bytes{};
  std::uint64_t tx_multicast{};
  std::uint64_t tx_errors{};  ///< no IP packet
  std::uint64_t tx_no_route{};
  std::uint64_t tx_unresolved{};  ///< nobody answered for the neighbour, or too many wait
  std::uint64_t tx_too_big{};     ///< of which the host was told, or might not be
  std::uint64_t tx_fragmented{};  ///< packets, not their fragments
  std::uint64_t tx_link_down{};
  std::uint64_t tx_partial_checksums{};  ///< left to the receiving host
  std::uint64_t rx_packets{};
  std::uint64_t rx_bytes{};
  std::uint64_t rx_multicast{};
  std::uint64_t rx_malformed{};
  std::uint64_t rx_unwanted{};  ///< of groups that the host does not listen to
  std::uint64_t rx_wrong_key{};
  std::uint64_t rx_partial_checksums{};
};

/// A payload of the interface's UD QP.
struct ReceivedPayload {
  ByteSpan payload{};
  PKey pkey{};
  QKey qkey{};
  std::optional<Gid> mgid{};  ///< multicast
};

class Interface {
 public:
  Interface(Link& link, const InterfaceOptions& options);

  /// The longest IP packet: in datagram mode by the broadcast group's MTU, less the header.
  [[nodiscard]] std::uint32_t mtu() const;
  [[nodiscard]] std::uint32_t datagram_mtu() const;
  [[nodiscard]] bool is_up() const { return is_up_; }

  /// Of a child, whose parent has another now.
  void set_parent_mtu(std::uint32_t mtu) { options_.parent_mtu = mtu; }

  /// An IP packet of the host.
  void transmit(ByteSpan packet, Instant now);
  /// A packet that may go with its checksum as it is. False: it may not, and transmit() takes it
  /// when the checksum is complete.
  [[nodiscard]] bool transmit_partial(ByteSpan packet, PartialChecksum checksum, Instant now);
  void handle_payload(const ReceivedPayload& received, Instant now);
  /// An IPoIB payload that came over a connection of a peer's.
  void handle_connected(ConnectionId id, ByteSpan payload);
  /// The link may have come up or gone down, or found neighbours.
  void link_changed(Instant now);

  void handle_timeout(Instant now);
  [[nodiscard]] Instant deadline() const;

  /// Sends a packet over a connection, whose octets need not be kept then. False: it has no room,
  /// and the packet becomes an action of connections().
  using SendConnected = std::function<bool(ConnectionId, ByteSpan encapsulation, ByteSpan packet)>;
  void send_connected_by(SendConnected send) { send_connected_ = std::move(send); }
  /// Takes packets for the TUN as they come, which are valid during the call; without it they wait
  /// for poll_delivery(), which is for those with complete checksums alone.
  using Deliver = std::function<void(ByteSpan packet, PartialChecksum checksum)>;
  void deliver_to(Deliver deliver) { deliver_ = std::move(deliver); }
  /// A packet for the TUN; those that the interface makes itself come so alone.
  [[nodiscard]] std::optional<Packet> poll_delivery();
  /// What they want of SA, and of the QPs.
  [[nodiscard]] GroupTable& groups() { return groups_; }
  [[nodiscard]] PathTable& paths() { return paths_; }
  [[nodiscard]] ConnectionTable& connections() { return connections_; }
  [[nodiscard]] const GroupTable& groups() const { return groups_; }
  [[nodiscard]] const PathTable& paths() const { return paths_; }
  [[nodiscard]] const ConnectionTable& connections() const { return connections_; }

  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  struct Waiting {
    std::deque<Packet> packets;
    Instant until{};
  };

  void transmit_to_group(const IpAddress& group, ByteSpan packet, Instant now);
  void transmit_to_neighbor(const IpAddress& neighbor, ByteSpan packet, Instant now);
  void send_to(const wire::IpoibHardwareAddress& hardware, ByteSpan packet, Instant now);
  [[nodiscard]] ConnectionTable::Outcome send_connected(const wire::IpoibHardwareAddress& hardware,
                                                        ByteSpan packet, Instant now);
  /// In fragments of at most that, by `send`; or the host is told that it may not be.
  template <class Send>
  void send_cut(ByteSpan packet, std::uint32_t limit, Send send);
  void refuse_too_big(ByteSpan packet, std::uint32_t limit);
  void wait_for(const IpAddress& neighbor, ByteSpan packet, Instant now);
  void flush_resolved(Instant now);
  void follow_listening(ByteSpan packet, Instant now);
  void deliver(ByteSpan payload, bool is_multicast, PartialChecksum checksum = {});
  void count_sent(ByteSpan packet, bool is_multicast);

  Link& link_;
  InterfaceOptions options_;
  GroupTable groups_;
  PathTable paths_;
  ConnectionTable connections_;
  std::map<IpAddress, Waiting> waiting_;
  SendConnected send_connected_;
  Deliver deliver_;
  std::deque<Packet> deliveries_;
  bool is_up_{};
  Counters counters_;
};

/// DHCP's client identifier (RFC 4390 §2.1, RFC 4361 §6.1): the hardware address field of a message
/// is too short for 20 octets, so this names the client. A DUID of type link-layer address with the
/// port's GUID, which a QPN, other than the GID, does not change.
[[nodiscard]] std::vector<std::byte> dhcp_client_identifier(Guid port_guid, std::uint32_t iaid);

}  // namespace weft::ipoib
