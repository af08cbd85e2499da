#pragma once

// Carries MADs between QP0 and QP1 of the fabric's ports over the fabric as it is: along their own
// path (directed route SMPs, by the rules of the nodes' SMIs), or by LID through the switches' own
// forwarding tables (fabric/walk.h); and other datagrams of hosts' kernel sides, and 16B packets of
// Omni-Path, likewise. What
// arrives is answered by the node's agents, or handed to who else is behind the QP. What a network
// drops is dropped, and counted as data is; what cables do to a packet is in carriage/cables.h.
// Pure. One thread.

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "base/identifiers.h"
#include "base/time.h"
#include "carriage/cables.h"
#include "carriage/in_flight.h"
#include "carriage/node_agents.h"
#include "fabric/tables.h"
#include "mad/agent_table.h"
#include "mad/datagram.h"
#include "mad/mad_address.h"

namespace weft::carriage {

/// Who is behind QP0 and QP1 of the ports, besides the agents.
class MadSink {
 public:
  MadSink() = default;
  virtual ~MadSink() = default;
  MadSink(const MadSink&) = delete;
  MadSink& operator=(const MadSink&) = delete;

  /// May send, but not run the network.
  virtual void deliver(fabric::PortIndex at, mad::InterfaceKind kind, const mad::MadAddress& source,
                       const mad::MadBytes& mad, Instant now) = 0;
};

/// Who takes datagrams that are no MADs, and the keys' business with them.
class DatagramSink {
 public:
  DatagramSink() = default;
  virtual ~DatagramSink() = default;
  DatagramSink(const DatagramSink&) = delete;
  DatagramSink& operator=(const DatagramSink&) = delete;

  /// At an HCA's port. The P_Key matches one of the port; Q_Key and QP are the sink's to check. It
  /// may send, but not run the network.
  virtual void take(fabric::PortIndex at, const mad::ReceivedDatagram& datagram, Instant now) = 0;
};

/// Who takes 16B packets of Omni-Path.
class OmniPathSink {
 public:
  OmniPathSink() = default;
  virtual ~OmniPathSink() = default;
  OmniPathSink(const OmniPathSink&) = delete;
  OmniPathSink& operator=(const OmniPathSink&) = delete;

  /// At an HCA's port. The P_Key matches one of the port; all else, and the ICRC, is the sink's to
  /// check. It may send, but not run the network.
  virtual void take(fabric::PortIndex at, const OmniPathPacket& packet, Instant now) = 0;
};

/// What the network saw; all only grow.
struct NetworkCounters {
  std::uint64_t carried{};     // that arrived, answers of agents included
  std::uint64_t no_route{};    // no forwarding entry, a wrong one, or a loop
  std::uint64_t link_down{};   // a port of the way does not carry it
  std::uint64_t lost{};        // by rules of faults, damaged ones included
  std::uint64_t bad_path{};    // a directed route that the rules do not allow
  std::uint64_t bad_key{};     // P_Key or Q_Key
  std::uint64_t unroutable{};  // nobody has that LID, or that QP
  std::uint64_t queue_full{};
  std::uint64_t traps{};
  std::uint64_t too_long{};  // for the MTU of a link, or of the sender's port
};

class ManagementNetwork {
 public:
  /// MADs that wait to be carried, of one port and of all; policy. Beyond, they are lost.
  static constexpr std::size_t kQueuedOfPort = 4096;
  static constexpr std::size_t kQueued = 65'536;
  /// Payloads of datagrams, and 16B packets, that wait; policy, likewise.
  static constexpr std::size_t kQueuedBytes = std::size_t{16} << 20;
  /// Packets that wait for readers of captures; policy. Beyond, they pass unseen.
  static constexpr std::size_t kWaitingForCaptures = 4096;
  /// How long until it is looked whether a capture has room again; policy.
  static constexpr Duration kBetweenLooks = Duration::microseconds(500);

  /// All must outlive it.
  ManagementNetwork(fabric::TablesBuilder& tables, NodeAgents& agents, MadSink& sink,
                    const CableOptions& cables = {});

  /// Sees the packets that cross ports with a capture; must outlive the network.
  void set_tap(LinkTap* tap) { cables_.set_tap(tap); }

  /// Of the links, which all who send on them share.
  void set_clocks(const fabric::DepartureClocks& clocks) { cables_.set_clocks(clocks); }

  /// Whether links take their time of MADs; as a rule they do.
  void set_takes_time(bool takes) { cables_.set_takes_time(takes); }

  /// The tables have more ports.
  void grow();

  /// From QP0 or QP1 of `from`: an HCA's port or port 0 of a switch.
  void send(fabric::PortIndex from, mad::InterfaceKind kind, const mad::MadPacket& packet);

  /// Of the kernel side behind an HCA's port; `sink` takes what arrives and must outlive the
  /// network.
  void send(fabric::PortIndex from, mad::Datagram datagram);
  void set_sink(DatagramSink* sink) { datagram_sink_ = sink; }

  /// From an HCA's Omni-Path port, whose LID must be its source; else it is not carried. `sink`
  /// takes what arrives and must outlive the network.
  void send(fabric::PortIndex from, OmniPathPacket packet);
  void set_sink(OmniPathSink* sink) { omni_path_sink_ = sink; }

  /// Carries at most `budget` MADs and the traps that are due; true when there is more.
  bool run(std::size_t budget, Instant now);

  [[nodiscard]] Instant deadline() const;
  [[nodiscard]] const NetworkCounters& counters() const { return counters_; }
  [[nodiscard]] std::size_t queued() const { return queue_.size() - head_; }

 private:
  /// What became of a packet under way.
  enum class Progress : std::uint8_t { Arrived, Gone, Waits };

  void carry(InFlightPacket& packet, Instant now);
  void go_on(InFlightPacket& packet, Instant now);
  void wait_for_captures(InFlightPacket& packet, Instant now);
  void retry_waiting(Instant now);
  void land(InFlightPacket& packet, Instant now);
  void receive(InFlightPacket& packet, Instant now);
  void carry_trap(const PendingTrap& trap, Instant now);
  void deliver_or_delay(InFlightPacket& packet, Instant now);
  [[nodiscard]] bool has_room(fabric::PortIndex from);
  [[nodiscard]] bool has_room_for(fabric::PortIndex from, std::size_t bytes);
  // datagrams.cc
  void carry_to_group(InFlightPacket& packet, Instant now);
  void receive_datagram(const InFlightPacket& packet, Instant now);
  // omni_path.cc
  void receive_omni_path(const InFlightPacket& packet, Instant now);
  [[nodiscard]] fabric::MulticastTree tree_of(const InFlightPacket& packet) const;
  // travel.cc
  [[nodiscard]] bool set_out(InFlightPacket& packet);
  [[nodiscard]] Progress travel(InFlightPacket& packet, Instant now);
  [[nodiscard]] Progress travel_by_lid(InFlightPacket& packet, Instant now);
  [[nodiscard]] Progress travel_directed(InFlightPacket& packet, bool begins, Instant now);
  [[nodiscard]] Progress cross(InFlightPacket& packet, const fabric::LidPair& address, Instant now);
  [[nodiscard]] bool may_cross(InFlightPacket& packet, std::span<const fabric::Hop> hops,
                               std::size_t payload_bytes, Instant now);
  void begin_part_by_lid(InFlightPacket& packet, fabric::PortIndex from, Lid dlid);
  [[nodiscard]] static PacketOnCable on_cable(const InFlightPacket& packet,
                                              const fabric::LidPair& address);
  void drop(const InFlightPacket& packet, const fabric::WalkEnd& end);
  // keys.cc
  [[nodiscard]] bool keys_pass(const InFlightPacket& packet, Instant now);
  [[nodiscard]] mad::MadAddress source_of(const InFlightPacket& packet) const;

  fabric::TablesBuilder& tables_;
  NodeAgents& agents_;
  MadSink& sink_;
  std::vector<InFlightPacket> queue_;  // from head_ on
  std::size_t head_{};
  std::vector<std::uint16_t> queued_of_;         // by port
  std::size_t queued_bytes_{};                   // of datagrams and 16B packets
  std::multimap<Instant, InFlightPacket> late_;  // which have come, and are held back until then
  std::deque<InFlightPacket> waiting_;           // for captures, in the order in which they came
  Instant look_again_{};                         // whether these have room
  Cables cables_;
  std::vector<std::array<Psn, 3>> next_psn_;  // by port, of QP0, QP1 and all that are no MADs
  DatagramSink* datagram_sink_{};
  OmniPathSink* omni_path_sink_{};
  NetworkCounters counters_;
};

}  // namespace weft::carriage
