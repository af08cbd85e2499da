#pragma once

// MADs in captures (`weft capture`): the daemon carries MADs, so it writes them to the capture
// rings, as programs do for what they send (host/tap_set.h). Not thread-safe.

#include <cstdint>
#include <utility>

#include "agents/mad_cables.h"
#include "base/result.h"
#include "fabric/tables.h"
#include "hca/packet.h"
#include "host/tap_set.h"
#include "host/unique_fd.h"

namespace weft::daemon {

/// The packet of a MAD on a link; its payload points into `mad`. Keys and QPs follow IBTA vol 1
/// §13.5.3.
[[nodiscard]] hca::Packet packet_of(const agents::MadOnCable& mad, const Gid& source_gid);

/// Writes MADs that cross tapped ports to capture rings.
class MadCapture final : public agents::MadTap {
 public:
  /// `tables` must outlive it.
  explicit MadCapture(const fabric::TablesBuilder& tables) : tables_(tables) {}

  /// Starts a capture at `port`. Returns its ring.
  [[nodiscard]] Result<host::UniqueFd> open(std::uint32_t capture, fabric::PortIndex port);
  void close(std::uint32_t capture) { taps_.close(capture); }

  /// Number of MADs that did not fit into a ring since the last call; the daemon never waits for a
  /// reader.
  [[nodiscard]] std::uint64_t take_missed() { return std::exchange(missed_, 0); }

  void show(const fabric::Hop& hop, const agents::MadOnCable& mad) override;

 private:
  const fabric::TablesBuilder& tables_;
  host::TapSet taps_;
  std::uint64_t missed_{};
};

}  // namespace weft::daemon
