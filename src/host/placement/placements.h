#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "hca/placement.h"
#include "host/placement/peer_placement.h"
#include "host/placement/placement_guard.h"
#include "host/placement/shared_files.h"

namespace weft::host {

/// Direct placement of one process (docs/ARCHITECTURE.md, decision 18): its peers, and what it has
/// granted them. Any thread.
class Placements {
 public:
  /// Before the first peer. False: nothing is granted, and nothing placed.
  void turn_on(bool is_on) { is_on_ = is_on; }
  [[nodiscard]] bool is_on() const { return is_on_; }
  /// Before the first peer. False: no pages are shared, whatever memory is registered.
  void share_pages(bool is_on) { shares_pages_ = is_on; }
  [[nodiscard]] bool shares_pages() const { return is_on_ && shares_pages_; }
  /// Before the first peer: called when memory of a peer was mapped, so that somebody calls
  /// release_mapped() from time to time.
  void on_mapped(std::function<void()> notify) { notify_mapped_ = std::move(notify); }

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
  /// A region is registered, and its program may close the file that the memory is of.
  void hold_file(const void* region, std::span<const std::byte> memory);
  /// A region is no more, granted or not (HcaEvents::forget_placeable).
  void forget(const void* region);

  /// Withdraws everything, and `make_private` runs while nothing is granted. Peers map these
  /// regions no more.
  void unshare(std::span<const void* const> regions, const std::function<void()>& make_private);

  /// Memory of peers may be mapped.
  [[nodiscard]] bool has_mapped() const { return has_mapped_.load(std::memory_order_relaxed); }
  /// Unmaps what peers no longer grant: their programs may have freed it.
  void release_mapped();

 private:
  void note_mapped();
  void end_epoch();

  bool is_on_{true};
  bool shares_pages_{true};
  std::function<void()> notify_mapped_;
  std::atomic<bool> has_mapped_{};
  std::mutex lock_;          // guards the rest; last of all locks but PeerPlacement's own
  bool may_have_granted_{};  // since the last withdrawal: an epoch was asked for
  std::vector<std::unique_ptr<PeerPlacement>> peers_;
  PlacementGuard guard_;
  SharedFiles files_;
};

}  // namespace weft::host
