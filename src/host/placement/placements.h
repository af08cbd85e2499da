#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "hca/placement.h"
#include "host/placement/peer_placement.h"
#include "host/placement/placement_guard.h"

namespace weft::host {

/// Direct placement of one process (docs/ARCHITECTURE.md, decision 18): its peers, and what it has
/// granted them. Any thread.
class Placements {
 public:
  /// Before the first peer. False: nothing is granted, and nothing placed.
  void turn_on(bool is_on) { is_on_ = is_on; }
  [[nodiscard]] bool is_on() const { return is_on_; }

  /// What concerns one more peer, which lives as long as this.
  [[nodiscard]] PeerPlacement& add_peer();

  /// The epoch of what is granted to the peer next; nothing if it places nothing.
  [[nodiscard]] std::optional<std::uint64_t> epoch(const PeerPlacement& peer);
  /// Grants `memory` to the peer's QP that is connected with `qpn`, unless something was withdrawn
  /// since `epoch`.
  void grant(PeerPlacement& peer, std::uint64_t epoch, std::uint64_t tables, Qpn qpn,
             const hca::PlaceableMemory& memory);
  /// Withdraws everything (HcaEvents::withdraw_placement).
  void withdraw();

 private:
  bool is_on_{true};
  std::mutex lock_;          // guards the rest; last of all locks but PeerPlacement's own
  bool may_have_granted_{};  // since the last withdrawal: an epoch was asked for
  std::vector<std::unique_ptr<PeerPlacement>> peers_;
  PlacementGuard guard_;
};

}  // namespace weft::host
