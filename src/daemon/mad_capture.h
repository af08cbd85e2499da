#pragma once

// MADs in captures (weft capture): the daemon carries them, so it shows them, as programs show what
// they send (host/tap_set.h). One thread.

#include <cstdint>
#include <utility>

#include "agents/mad_cables.h"
#include "base/result.h"
#include "fabric/tables.h"
#include "hca/packet.h"
#include "host/tap_set.h"
#include "os/unique_fd.h"

namespace weft::daemon {

/// The packet that a MAD is on a cable; its payload points into `mad`. Keys and QPs as IBTA vol 1
/// §13.5.3 has them.
[[nodiscard]] hca::Packet packet_of(const agents::MadOnCable& mad, const Gid& source_gid);

class MadCapture final : public agents::MadTap {
 public:
  /// `tables` must outlive it.
  explicit MadCapture(const fabric::TablesBuilder& tables) : tables_(tables) {}

  /// From now on MADs that cross `port` are shown in the ring that is returned.
  [[nodiscard]] Result<os::UniqueFd> open(std::uint32_t capture, fabric::PortIndex port);
  void close(std::uint32_t capture) { taps_.close(capture); }

  /// The daemon waits for no reader: what one had no room for is not in its capture. Since the last
  /// time.
  [[nodiscard]] std::uint64_t take_missed() { return std::exchange(missed_, 0); }

  void show(const fabric::Hop& hop, const agents::MadOnCable& mad) override;

 private:
  const fabric::TablesBuilder& tables_;
  host::TapSet taps_;
  std::uint64_t missed_{};
};

}  // namespace weft::daemon
