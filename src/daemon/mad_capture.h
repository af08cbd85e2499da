#pragma once

// MADs in captures (`weft capture`): the daemon carries MADs, so it writes them to the capture
// rings, as programs do for what they send (host/tap_set.h). Not thread-safe.

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/result.h"
#include "carriage/cables.h"
#include "fabric/tables.h"
#include "hca/packet.h"
#include "host/tap_set.h"
#include "os/unique_fd.h"

namespace weft::daemon {

/// The packet that a MAD is on a cable; its payload points into `mad`. Keys and QPs as IBTA vol 1
/// §13.5.3 has them.
[[nodiscard]] hca::Packet packet_of(const carriage::PacketOnCable& mad, const Gid& source_gid);

class MadCapture final : public carriage::LinkTap {
 public:
  /// `tables` must outlive it.
  explicit MadCapture(const fabric::TablesBuilder& tables) : tables_(tables) {}

  /// From now on MADs that cross `port` are shown in the ring that is returned.
  [[nodiscard]] Result<os::UniqueFd> open(std::uint32_t capture, fabric::PortIndex port);
  void close(std::uint32_t capture) { taps_.close(capture); }

  /// MADs that are in no capture since its reader has stopped for longer than they wait for it.
  /// Since the last time.
  [[nodiscard]] std::uint64_t take_missed_count() { return std::exchange(missed_, 0); }

  [[nodiscard]] bool has_room(std::span<const fabric::Hop> hops, std::size_t payload_bytes,
                              std::size_t packets) override;
  void show(const fabric::Hop& hop, const carriage::PacketOnCable& mad) override;

 private:
  const fabric::TablesBuilder& tables_;
  host::TapSet taps_;
  std::uint64_t missed_{};
};

}  // namespace weft::daemon
