#pragma once

// Carries MADs between QP0 and QP1 of the fabric's ports over the fabric as it is: along their own
// path (directed route SMPs, by the rules of the SMI, IBTA vol 1 §14.2.2), or by LID through the
// switches' own forwarding tables. What arrives is answered by the node's agents, or handed to who
// else is behind the QP. What a network drops is dropped, and counted; what cables do to a MAD is
// in agents/mad_cables.h. Pure. One thread.

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "agents/fabric_agents.h"
#include "agents/mad_cables.h"
#include "base/identifiers.h"
#include "base/time.h"
#include "fabric/tables.h"
#include "mad/agent_table.h"
#include "mad/datagram.h"
#include "mad/mad_address.h"
#include "wire/mad/smp.h"

namespace weft::agents {

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

/// What the network saw; all only grow.
struct NetworkCounters {
  std::uint64_t carried{};        // that arrived, answers of agents included
  std::uint64_t no_route{};       // no forwarding entry, a wrong one, or a loop
  std::uint64_t link_down{};      // a port of the way does not carry it
  std::uint64_t lost{};           // by rules of faults, damaged ones included
  std::uint64_t bad_path{};       // a directed route that the rules do not allow
  std::uint64_t bad_key{};        // P_Key or Q_Key
  std::uint64_t no_such_place{};  // nobody has that LID, or that QP
  std::uint64_t queue_full{};
  std::uint64_t traps{};
  std::uint64_t too_long{};  // for the MTU of a link, or of the sender's port
};

class ManagementNetwork {
 public:
  /// MADs that wait to be carried, of one port and of all; policy. Beyond, they are lost.
  static constexpr std::size_t kQueuedOfPort = 4096;
  static constexpr std::size_t kQueued = 65'536;
  /// Payloads of datagrams that wait; policy, likewise.
  static constexpr std::size_t kQueuedBytes = std::size_t{16} << 20;

  /// All must outlive it.
  ManagementNetwork(fabric::TablesBuilder& tables, FabricAgents& agents, MadSink& sink,
                    const CableOptions& cables = {});

  /// Sees the MADs that cross ports with a capture; must outlive the network.
  void set_tap(MadTap* tap) { cables_.set_tap(tap); }

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

  /// Carries at most `budget` MADs and the traps that are due; true when there is
  /// more.
  bool run(std::size_t budget, Instant now);

  [[nodiscard]] Instant deadline() const;
  [[nodiscard]] const NetworkCounters& counters() const { return counters_; }
  [[nodiscard]] std::size_t queued() const { return queue_.size() - head_; }

 private:
  struct Parcel {
    fabric::PortIndex from;
    mad::InterfaceKind kind{};
    mad::MadPacket packet{};
    bool is_answer{};                                 // of an agent: not answered in turn
    Psn psn{};                                        // of the sending QP
    std::shared_ptr<const mad::Datagram> datagram{};  // instead of a MAD; the address is in both
    std::uint32_t copies{1};                          // that rules of faults made, while it travels
    Duration held_back{};
    Duration on_wire{};  // of that: its time on the slowest link, for switches cut through
  };
  /// Where a MAD got to: the node's port that it came in by, and the port whose LID it came from.
  struct Arrival {
    fabric::PortIndex at;
    fabric::PortIndex source;
    bool is_permissive{};  // its SLID was the permissive one
  };
  /// The LIDs of the LRH.
  struct LinkAddress {
    Lid slid;
    Lid dlid;
  };
  /// A MAD that a rule holds back at the end of its way.
  struct Late {
    Parcel parcel;
    Arrival arrival;
  };
  /// Where a directed route SMP goes from a node.
  struct Step {
    enum class Kind : std::uint8_t { Out, ByLid, Arrived, Refused };
    Kind kind{Kind::Refused};
    fabric::PortIndex egress{fabric::kNoPort};
    Lid dlid{};
  };
  /// How a directed route SMP came to a node: it starts there (or ends its first LID routed part),
  /// it came over a cable, or it ended its last LID routed part.
  enum class Phase : std::uint8_t { Start, Wire, Landed };
  /// A directed route SMP under way, its header unpacked.
  struct Directed {
    mad::MadBytes& mad;
    wire::SmpDirectedHeader header{};
    wire::SmpRoute route{};
    fabric::PortIndex at{fabric::kNoPort};
    Phase phase{Phase::Start};
  };

  void carry(Parcel& parcel, Instant now);
  void land(Parcel& parcel, const Arrival& arrival, Instant now);
  void receive(Parcel& parcel, const Arrival& arrival, Instant now);
  void carry_trap(const DueTrap& trap, Instant now);
  void land_or_hold(Parcel& parcel, const Arrival& arrival, Instant now);
  [[nodiscard]] bool has_room(fabric::PortIndex from);
  // datagrams.cc
  void carry_datagram(Parcel& parcel, Instant now);
  void carry_to_group(Parcel& parcel, Instant now);
  void receive_datagram(const Parcel& parcel, const Arrival& arrival, Instant now);
  [[nodiscard]] std::optional<Arrival> travel(Parcel& parcel, Instant now);
  [[nodiscard]] std::optional<Arrival> travel_by_lid(Parcel& parcel, fabric::PortIndex from,
                                                     Lid dlid);
  [[nodiscard]] std::optional<Arrival> travel_directed(Parcel& parcel);
  [[nodiscard]] Step step(Directed& smp) const;
  [[nodiscard]] Step outbound_step(Directed& smp) const;
  [[nodiscard]] Step returning_step(Directed& smp) const;
  [[nodiscard]] Step out_of(fabric::PortIndex at, std::byte number) const;
  [[nodiscard]] fabric::PortIndex cross(Parcel& parcel, fabric::PortIndex egress,
                                        const LinkAddress& address);
  [[nodiscard]] bool passes(fabric::PortIndex egress, mad::InterfaceKind kind) const;
  [[nodiscard]] bool keys_pass(const Parcel& parcel, const Arrival& arrival, Instant now);
  [[nodiscard]] mad::MadAddress source_of(const Parcel& parcel, const Arrival& arrival) const;

  fabric::TablesBuilder& tables_;
  FabricAgents& agents_;
  MadSink& sink_;
  std::vector<Parcel> queue_;  // from head_ on
  std::size_t head_{};
  std::vector<std::uint16_t> queued_of_;  // by port
  std::size_t queued_bytes_{};            // of datagrams, late ones too
  std::multimap<Instant, Late> late_;
  MadCables cables_;
  std::vector<std::array<Psn, 3>> next_psn_;  // by port, of QP0, QP1 and the datagrams
  DatagramSink* datagram_sink_{};
  NetworkCounters counters_;
};

}  // namespace weft::agents
