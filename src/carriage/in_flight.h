#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/identifiers.h"
#include "base/serial.h"
#include "base/time.h"
#include "carriage/node_agents.h"
#include "carriage/omni_path_packet.h"
#include "fabric/path_end.h"
#include "fabric/tables.h"
#include "fabric/walk.h"
#include "mad/agent_table.h"
#include "mad/datagram.h"
#include "mad/mad_address.h"

namespace weft::carriage {

/// Where a packet got to.
struct Arrival {
  fabric::PortIndex at;      // the node's port that it came in by
  fabric::PortIndex source;  // the port whose LID it came from
  bool is_permissive{};      // its SLID was the permissive one
};

/// A MAD, another datagram of a host's kernel side, or a 16B packet of Omni-Path, from when it is
/// sent until it is received: what is carried and how far it has come. It may stop before any
/// cable, for a capture that has no room, and go on later.
struct InFlightPacket {
  fabric::PortIndex from;
  mad::InterfaceKind kind{};
  mad::MadPacket packet{};
  std::shared_ptr<const mad::Datagram> datagram{};    // instead of a MAD; the address is in both
  std::shared_ptr<const OmniPathPacket> omni_path{};  // instead of both, which is all that it is
  bool is_answer{};                                   // of an agent: not answered in turn
  Psn psn{};                                          // of the sending QP

  std::uint32_t copies{1};  // that rules of faults made, while it travels
  Instant departs{};        // from the busiest of its links, for switches cut through
  Duration delay{};         // of its cables, and of rules

  bool is_directed{};  // an SMP with a path of its own
  bool has_left{};     // its way has begun
  std::optional<fabric::UnicastWalk<fabric::TablesBuilder>> by_lid{};  // a part by LID under way
  std::optional<fabric::Hop> next{};                                   // the cable to cross
  SmiPhase phase{SmiPhase::Start};                                     // of a directed route
  Arrival arrival{};
  Instant waits_since{Instant::never()};  // for a capture

  [[nodiscard]] bool is_mad() const { return datagram == nullptr && omni_path == nullptr; }
  [[nodiscard]] bool is_multicast() const {
    return omni_path != nullptr ? omni_path->address.destination.is_multicast()
                                : datagram != nullptr && packet.address.lid.is_multicast();
  }
  /// What is kept of it beside this, while it is queued.
  [[nodiscard]] std::size_t payload_bytes() const {
    return omni_path != nullptr  ? omni_path->octets.size()
           : datagram != nullptr ? datagram->payload.size()
                                 : 0;
  }

  /// It is at `from`, and has crossed nothing.
  void set_out() {
    departs = {};
    delay = {};
    has_left = false;
    by_lid.reset();
    next.reset();
    phase = SmiPhase::Start;
    arrival = {.at = from, .source = from, .is_permissive = true};
    waits_since = Instant::never();
  }
};

}  // namespace weft::carriage
