#pragma once

// What cables do to a packet of the daemon that crosses them one by one: a MAD, another datagram of
// a host's kernel side, or a 16B packet of Omni-Path. The rules are those of every sender
// (fabric/link_crossing.h); what is counted here counts at both ports at once (IBTA vol 1
// §16.1.3.5), and captures are shown the packet as it is on each cable. Pure. One thread.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/bytes.h"
#include "base/identifiers.h"
#include "base/serial.h"
#include "base/time.h"
#include "carriage/omni_path_packet.h"
#include "fabric/counter_source.h"
#include "fabric/departure_clocks.h"
#include "fabric/faults.h"
#include "fabric/link_crossing.h"
#include "fabric/link_rules.h"
#include "fabric/path.h"
#include "fabric/tables.h"
#include "mad/agent_table.h"
#include "mad/mad_address.h"
#include "verbs/mtu.h"

namespace weft::carriage {

/// A packet between two ports. Of Omni-Path `omni_path` is all that it is, with `bytes` its octets;
/// the LIDs are then of 24 bits.
struct PacketOnCable {
  mad::InterfaceKind kind{};
  Lid slid;
  Lid dlid;
  Psn psn;
  fabric::PortIndex source;  // that sent it first
  const mad::MadAddress& to;
  ByteSpan bytes;
  Qpn source_qp{kQp1};  // which a MAD of QP0 has not
  const OmniPathPacket* omni_path{};

  [[nodiscard]] Qpn sender() const { return kind == mad::InterfaceKind::Smi ? kQp0 : source_qp; }
  [[nodiscard]] bool is_multicast() const {
    return omni_path != nullptr ? omni_path->address.destination.is_multicast()
                                : dlid.is_multicast();
  }
  /// By which ports count it: of Omni-Path the service channel, as far as there are counters.
  [[nodiscard]] ServiceLevel service_level() const {
    return omni_path != nullptr
               ? ServiceLevel{static_cast<std::uint8_t>(omni_path->service_channel % 16)}
               : to.sl;
  }
  /// Whether it is too long to leave by this port.
  [[nodiscard]] bool is_too_long(const fabric::PortRecord& egress) const {
    return bytes.size() >
           (omni_path != nullptr ? kMaxOmniPathPacketBytes : verbs::bytes(egress.active_mtu));
  }
};

/// Sees the packets of ports that have a capture.
class LinkTap {
 public:
  LinkTap() = default;
  virtual ~LinkTap() = default;
  LinkTap(const LinkTap&) = delete;
  LinkTap& operator=(const LinkTap&) = delete;

  /// Whether every capture of a port of `hops` has room for `packets` of so many bytes.
  [[nodiscard]] virtual bool has_room(std::span<const fabric::Hop> hops, std::size_t payload_bytes,
                                      std::size_t packets) = 0;
  /// `hop` has no ingress if nothing arrived there. What finds no room is not in the capture.
  virtual void show(const fabric::Hop& hop, const PacketOnCable& packet) = 0;
};

/// Each may be absent.
struct CableOptions {
  fabric::CounterSource* counters{};  // must outlive who is given it
  fabric::FaultCounters faults{};     // none: rules hit nothing
  fabric::DepartureClocks clocks{};   // none: packets do not wait for each other
};

class Cables {
 public:
  /// Copies of one packet that rules may make; further ones are not made (policy).
  static constexpr std::uint32_t kMaxCopies = fabric::FaultEffects::kMaxCopies;

  /// Policy: how long packets wait for the reader of a capture, as for a link (IBTA vol 1
  /// §18.2.5.4). Then it is taken to have stopped: packets pass unseen until it has read again.
  static constexpr Duration kWaitLimit = Duration::milliseconds(1'074);

  /// `tables` must outlive it.
  Cables(const fabric::TablesBuilder& tables, const CableOptions& options)
      : tables_(tables),
        counters_(options.counters),
        clocks_(options.clocks),
        faults_(options.faults),
        rules_(tables) {}

  void set_clocks(const fabric::DepartureClocks& clocks) { clocks_ = clocks; }

  /// What crosses from now on sets out now.
  void set_time(Instant now) { now_ = now; }

  /// Not while a fabric is made: then links take no time.
  void set_takes_time(bool takes) { takes_time_ = takes; }

  /// Must outlive this; none: nobody looks.
  void set_tap(LinkTap* tap) { tap_ = tap; }

  /// Whether captures let `copies` of a packet cross, which has waited since `since` for them.
  [[nodiscard]] bool may_cross(std::span<const fabric::Hop> hops, std::size_t payload_bytes,
                               std::uint32_t copies, Instant since);

  struct Crossing {
    std::uint32_t arrived{};  // copies
    Duration held_back;       // the latest of them, and the cable's delay
    Duration on_wire;         // from now on until the link has sent them
  };
  /// `copies` of a packet, at least one, over a link that carries them.
  [[nodiscard]] Crossing cross(const fabric::Hop& hop, const PacketOnCable& packet,
                               std::uint32_t copies);

  /// A packet to a group, edge by edge of its tree: what becomes of it, and when it is at the end
  /// of each if that takes time. Good until the next call.
  struct TreeCrossing {
    std::span<const fabric::EdgeCrossing> edges;
    std::span<const fabric::Transit> ends;
  };
  [[nodiscard]] TreeCrossing cross(const fabric::MulticastTree& tree, const PacketOnCable& packet);

  /// Counts copies that a port dropped.
  void drop(fabric::PortIndex port, std::uint32_t copies, fabric::PathEnd why);

 private:
  [[nodiscard]] fabric::LinkCrossing crossing() { return {clocks_, faults_}; }
  [[nodiscard]] fabric::DepartureClock* vl15_clock(fabric::PortIndex egress,
                                                   const PacketOnCable& packet);
  void count(const fabric::Hop& hop, const PacketOnCable& packet, std::uint32_t packets);
  void count_edge(const fabric::Hop& hop, const fabric::EdgeCrossing& edge,
                  const PacketOnCable& packet);
  [[nodiscard]] bool is_tapped(const fabric::Hop& hop) const;
  void show(const fabric::Hop& hop, const PacketOnCable& packet, bool arrives);

  const fabric::TablesBuilder& tables_;
  fabric::CounterSource* counters_;
  fabric::DepartureClocks clocks_;
  std::unordered_map<fabric::PortIndex, fabric::DepartureClock> vl15_clocks_;  // of rated links
  fabric::FaultCounters faults_;
  fabric::LinkRules rules_;
  LinkTap* tap_{};
  Instant now_{};
  bool takes_time_{true};
  bool reader_has_stopped_{};  // of a capture
  std::vector<fabric::EdgeCrossing> edges_;
  std::vector<fabric::Transit> ends_;
};

}  // namespace weft::carriage
