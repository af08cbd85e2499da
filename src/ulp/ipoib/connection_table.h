#pragma once

// Connected mode (RFC 4755): connections to neighbours that offer it, with packets that wait for
// them. A connection carries packets one way, from the end that made it, so that two ends that
// connect at the same time have two, and nobody has to give way (RFC 4755 §3.3). The QPs and the
// connection manager are its driver's. Pure, not thread-safe.

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/flags.h"
#include "base/identifiers.h"
#include "base/result.h"
#include "base/time.h"
#include "ulp/ipoib/connection_data.h"
#include "ulp/ipoib/too_big.h"
#include "verbs/qp_type.h"
#include "wire/ipoib/hardware_address.h"

namespace weft::ipoib {

using Packet = std::vector<std::byte>;

/// The service ID that the interface with this UD QP listens on (RFC 4755 §3.5).
[[nodiscard]] constexpr std::uint64_t service_id_of(Qpn qpn) {
  constexpr std::uint64_t kIetf = 0x1000'0000'0000'0000;
  return kIetf | qpn.value();
}

/// What the interface does beside datagrams.
enum class ConnectedMode : std::uint8_t { None, Reliable, Unreliable, Both };

/// The flags of the interface's own link-layer address (RFC 4755 §3.1).
[[nodiscard]] Flags<wire::IpoibFlag> flags_of(ConnectedMode mode);

/// Of the connection between an interface of this mode and a neighbour with those flags: what both
/// offer (RFC 4755 §3.2), RC before UC, which loses packets; none: datagrams.
[[nodiscard]] std::optional<verbs::QpType> connection_type(ConnectedMode mode,
                                                           Flags<wire::IpoibFlag> neighbor);

enum class ConnectionState : std::uint8_t { Connecting, Connected, Backoff };
enum class ConnectionEvent : std::uint8_t { Established, Refused, Lost };

struct ConnectionRow {
  ConnectionState state;
  ConnectionEvent event;
  ConnectionState next;
};
/// What does not stand here changes nothing. A back-off ends by forgetting the connection.
inline constexpr auto kConnectionRows = std::to_array<ConnectionRow>({
    {ConnectionState::Connecting, ConnectionEvent::Established, ConnectionState::Connected},
    {ConnectionState::Connecting, ConnectionEvent::Refused,     ConnectionState::Backoff  },
    {ConnectionState::Connecting, ConnectionEvent::Lost,        ConnectionState::Backoff  },
    {ConnectionState::Connected,  ConnectionEvent::Lost,        ConnectionState::Backoff  },
});

/// Policy, but for the last two.
struct ConnectionLimits {
  std::size_t connections{1024};  ///< in each direction
  std::size_t packets_of_connection{16};
  Duration idle{Duration::seconds(300)};
  Duration backoff{Duration::seconds(10)};
  std::uint32_t mtu{kMaxConnectedMtu};
  /// Its driver carries packets with partial checksums, and has told so (private_data_of).
  bool partial_checksums{};
};

struct ConnectionCounters {
  std::uint64_t connects{};
  std::uint64_t accepted{};
  std::uint64_t refused{};
  std::uint64_t idle_ended{};
  std::uint64_t dropped{};
};

using ConnectionId = std::uint64_t;

/// What the driver is to do, in order.
struct ConnectionAction {
  enum class Kind : std::uint8_t { Connect, Disconnect, Send };
  Kind kind{};
  ConnectionId id{};
  wire::IpoibHardwareAddress neighbor{};  ///< Connect
  verbs::QpType type{};                   ///< Connect: Rc or Uc
  std::uint64_t service_id{};             ///< Connect
  ConnectionData data{};                  ///< Connect
  Packet packet{};                        ///< Send
};

class ConnectionTable {
 public:
  /// What became of a packet.
  enum class Outcome : std::uint8_t {
    Taken,     ///< sent, waits for the connection, or was dropped and counted
    TooBig,    ///< for the connection: its MTU is mtu_to()
    Datagram,  ///< there is no connection, and none to be had now
  };

  ConnectionTable(ConnectedMode mode, Qpn ud_qpn, const ConnectionLimits& limits = {})
      : mode_(mode), ud_qpn_(ud_qpn), limits_(limits) {}

  /// A packet with its encapsulation header.
  [[nodiscard]] Outcome send(const wire::IpoibHardwareAddress& neighbor, Packet packet,
                             Instant now);
  /// The connection to there, if so many octets, with the encapsulation header, may go over it at
  /// once, since no action waits before them: as good as sent.
  [[nodiscard]] std::optional<ConnectionId> send_at_once(const wire::IpoibHardwareAddress& neighbor,
                                                         std::size_t bytes, Instant now);
  /// Packets of the connection to there may have partial checksums.
  [[nodiscard]] bool sends_partial_checksums(const wire::IpoibHardwareAddress& neighbor) const;
  /// The longest IP packet that a connection to there takes; none without one.
  [[nodiscard]] std::optional<std::uint32_t> mtu_to(
      const wire::IpoibHardwareAddress& neighbor) const;

  // Connections of this end.
  void established(ConnectionId id, ByteSpan private_data, Instant now);
  void refused(ConnectionId id, Instant now);
  void lost(ConnectionId id, Instant now);
  /// Where it leads; none: there is no such connection.
  [[nodiscard]] std::optional<Gid> peer_of(ConnectionId id) const;

  /// A REQ: this end's private data if it is accepted, under the peer's id.
  [[nodiscard]] Result<ConnectionData> accept(ConnectionId id, ByteSpan private_data);
  void closed(ConnectionId id) { inbound_.erase(id); }
  /// Packets of this connection of a peer's may have partial checksums.
  [[nodiscard]] bool receives_partial_checksums(ConnectionId id) const;

  /// The link is down, or the neighbour has another address now.
  void end_all();

  void handle_timeout(Instant now);
  [[nodiscard]] Instant deadline() const;
  [[nodiscard]] std::optional<ConnectionAction> poll_action();

  [[nodiscard]] std::size_t outbound() const { return outbound_.size(); }
  [[nodiscard]] std::size_t inbound() const { return inbound_.size(); }
  [[nodiscard]] const ConnectionCounters& counters() const { return counters_; }

 private:
  using Key = std::pair<Gid, Qpn>;
  struct Connection {
    ConnectionState state{ConnectionState::Connecting};
    ConnectionId id{};
    std::uint32_t peer_mtu{};  // with the encapsulation header
    bool partial_checksums{};
    Instant due{Instant::never()};
    std::deque<Packet> waiting;
  };

  [[nodiscard]] ConnectionData own_data() const {
    return {.qpn = ud_qpn_, .receive_mtu = limits_.mtu + kHeaderBytes};
  }
  [[nodiscard]] Connection* find(ConnectionId id);
  void step(Connection& connection, ConnectionEvent event, Instant now);
  void queue(Connection& connection, Packet packet);

  ConnectedMode mode_;
  Qpn ud_qpn_;
  ConnectionLimits limits_;
  std::map<Key, Connection> outbound_;
  std::map<ConnectionId, bool> inbound_;  // whether their packets may have partial checksums
  std::deque<ConnectionAction> actions_;
  ConnectionId last_id_{};
  ConnectionCounters counters_;
};

}  // namespace weft::ipoib
