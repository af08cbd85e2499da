#pragma once

// MADs, and Omni-Path's 16B packets, in captures (`weft capture`): the daemon carries them, so it
// writes them to the capture rings, as programs do for what they send (host/tap_set.h). Not
// thread-safe.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>

#include "base/identifiers.h"
#include "base/result.h"
#include "base/serial.h"
#include "carriage/cables.h"
#include "fabric/tables.h"
#include "hca/packet.h"
#include "host/tap_set.h"
#include "os/unique_fd.h"
#include "sriov/tunnel.h"

namespace weft::daemon {

/// The packet that a MAD is on a cable; its payload points into `mad`. Keys and QPs as IBTA vol 1
/// §13.5.3 has them.
[[nodiscard]] hca::Packet packet_of(const carriage::PacketOnCable& mad, const Gid& source_gid);

/// The same of a MAD in a tunnel of a virtual function at a port with this LID. It never leaves the
/// port.
[[nodiscard]] hca::Packet packet_of(const sriov::TunnelDatagram& mad, Lid lid);

class MadCapture final : public carriage::LinkTap {
 public:
  /// `tables` must outlive it.
  explicit MadCapture(const fabric::TablesBuilder& tables) : tables_(tables) {}

  /// From now on MADs that cross `port` are shown in the ring that is returned.
  [[nodiscard]] Result<os::UniqueFd> open(std::uint32_t capture, fabric::PortIndex port);
  /// The same of what passes the tunnels of the port's virtual functions.
  [[nodiscard]] Result<os::UniqueFd> open_tunnels(std::uint32_t capture, fabric::PortIndex port);
  /// Ends both.
  void close(std::uint32_t capture);

  /// MADs that are in no capture since its reader has stopped for longer than they wait for it.
  /// Since the last time.
  [[nodiscard]] std::uint64_t take_missed_count() { return std::exchange(missed_, 0); }

  [[nodiscard]] bool has_room(std::span<const fabric::Hop> hops, std::size_t payload_bytes,
                              std::size_t packets) override;
  void show(const fabric::Hop& hop, const carriage::PacketOnCable& mad) override;
  /// Tunnels wait for no reader: what finds no room is missed.
  void show(fabric::PortIndex physical, const sriov::TunnelDatagram& mad);

 private:
  void show(host::TapSet& taps, const fabric::Hop& hop, const hca::Packet& packet);

  const fabric::TablesBuilder& tables_;
  host::TapSet taps_{host::TapSet::kEndless};  // carriage::Cables wait for room
  host::TapSet tunnel_taps_{host::TapSet::kEndless};
  std::map<std::pair<fabric::PortIndex, Qpn>, Psn> tunnel_psns_;  // the next, by sending QP
  std::uint64_t missed_{};
};

}  // namespace weft::daemon
