#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "hca/placement.h"
#include "host/placement/mapped_regions.h"
#include "host/placement/placement_memory.h"
#include "os/peer_memory.h"

namespace weft::host {

/// Which way the WRITEs, READs and atomics of a QP go, and why.
enum class PlacementWay : std::uint8_t {
  NotTried,       // none was worth it
  Placed,         // by this process's own hand
  TurnedOff,      // by the user: WEFT_PLACEMENT=packets
  NotAllowed,     // by the fabric (weft up --isolate), or the two run in different PID namespaces
  SameProcess,    // the peer is this process
  PathIsWatched,  // a capture, a rule of faults, a rate or a delay is on the path
  NotGranted,     // the peer has not granted the memory, or has withdrawn it
  Refused,        // by the operating system: ptrace_scope or a sandbox
  SharedPages,    // by this process's own hand, in pages that both map
  NotInPages,     // an atomic, and the pages of the memory cannot be shared
};
inline constexpr PlacementWay kLastPlacementWay = PlacementWay::NotInPages;
[[nodiscard]] hca::PlacementMeans means_of(PlacementWay way);
[[nodiscard]] std::string_view name_of(PlacementWay way);
[[nodiscard]] std::string_view reason_of(PlacementWay way);

/// Direct placement between this process and one other (docs/ARCHITECTURE.md, decision 18): what
/// each grants the other, and the copies of this process. Any thread, unless noted.
class PeerPlacement {
 public:
  /// `notify_mapped` is called when memory of the peer was mapped, which `maps_pages` allows.
  explicit PeerPlacement(std::function<void()> notify_mapped = {}, bool maps_pages = true)
      : notify_mapped_(std::move(notify_mapped)), maps_pages_(maps_pages) {}

  /// The two are joined: `memory` is PlacementMemory of side 0 and of side 1, and stays mapped.
  /// `peer` is its process, 0 if the fabric allows no placement. On the control thread.
  void open(MutableByteSpan memory, unsigned side, pid_t peer);
  /// Nothing is placed any more by this process. What the peer places ends by
  /// Placements::withdraw(). On the control thread.
  void close();

  // --- the owner of memory

  /// The peer missed a grant since this was last asked.
  [[nodiscard]] bool take_wish();
  /// The epoch of grants, if the peer may place.
  [[nodiscard]] std::optional<std::uint64_t> epoch() const;
  /// Puts a grant where the peer finds it.
  void grant(const PlacementGrant& grant);
  /// The steps of a withdrawal (ring/placement.h).
  void end_epoch();
  void wait_for_copies();

  // --- the initiator

  /// Whether the peer has granted it. If not, the peer learns that it is wished.
  [[nodiscard]] PlacementWay find(const hca::PlacementTarget& target, std::uint64_t tables);
  /// Copies, if it has.
  [[nodiscard]] PlacementWay place(const hca::Placement& part, std::uint64_t tables);
  /// Unmaps what the peer no longer grants. True if some is mapped.
  bool release_mapped();

 private:
  [[nodiscard]] PlacementWay find(const hca::PlacementTarget& target, std::uint64_t tables,
                                  PlacementGrant& found) const;
  [[nodiscard]] std::optional<std::size_t> take_claim();
  [[nodiscard]] PlacementWay way_of_calls(const hca::PlacementTarget& target) const {
    return target.right == verbs::Access::RemoteAtomic   ? PlacementWay::NotInPages
           : is_refused_.load(std::memory_order_relaxed) ? PlacementWay::Refused
                                                         : PlacementWay::Placed;
  }
  void give_back(std::size_t claim) {
    claims_.fetch_and(~(1U << claim), std::memory_order_release);
  }
  [[nodiscard]] PlacementWay copy_by_call(const hca::Placement& part, const PlacementGrant& grant,
                                          std::size_t claim);
  [[nodiscard]] PlacementWay work_in_pages(const hca::Placement& part, const PlacementGrant& grant,
                                           std::size_t claim, std::byte* region);
  [[nodiscard]] std::byte* find_pages(const PlacementGrant& grant,
                                      std::optional<std::size_t>& claim);

  const std::function<void()> notify_mapped_;
  const bool maps_pages_;
  // Set once and kept: of the memory that stays mapped.
  std::atomic<PlacementMemory*> own_{};
  std::atomic<PlacementMemory*> peers_{};
  std::atomic<pid_t> peer_{};            // 0: no placement
  std::atomic<pid_t> last_peer_{};       // whose copies may be under way
  std::atomic<std::uint32_t> claims_{};  // bits of those that threads of this process use
  std::atomic<bool> is_refused_{};
  std::mutex granting_;
  MappedRegions mapped_{claims_};
};

/// Bytes of the memory that open() takes.
inline constexpr std::size_t kPlacementBytes = 2 * sizeof(PlacementMemory);

}  // namespace weft::host
