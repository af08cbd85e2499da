#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "host/fabric_map.h"
#include "host/foreign/daemon_channel.h"
#include "host/lane.h"
#include "host/live_links.h"
#include "host/pair_memory.h"
#include "host/placement/placements.h"
#include "host/tap_set.h"
#include "ring/doorbell_bitmap.h"
#include "uabi/messages.h"

namespace weft::host {

/// Most lanes of a process, which suffices for 1,023 pairs; packets for further peers are lost. As
/// many as a doorbell bitmap has bits.
inline constexpr std::size_t kMaxLanes = ring::DoorbellBitmap::kDoorbells;

/// The lanes of a process. Those of one pair of processes are adjacent, and are opened and closed
/// together. The array only grows, so access by number needs no lock. Any thread, except where the
/// control thread is named; it has its own locks.
class LaneTable {
 public:
  /// `waiting` counts the QPs that wait for room on any lane.
  LaneTable(const FabricMap& map, TapSet& taps, LiveLinks& links,
            std::atomic<std::uint32_t>& waiting, DaemonChannel& daemon, Placements& placements)
      : map_(map),
        taps_(taps),
        links_(links),
        waiting_(waiting),
        daemon_(daemon),
        placements_(placements) {}
  LaneTable(const LaneTable&) = delete;
  LaneTable& operator=(const LaneTable&) = delete;

  /// To be called first, once: creates the null lanes, and those to this process itself in `own`.
  void open(uabi::ProcessAddress self, std::unique_ptr<PairMemory> own);

  /// By number, which must be below count().
  [[nodiscard]] Lane* operator[](std::size_t number) const { return lanes_[number].get(); }
  [[nodiscard]] std::size_t count() const { return count_.load(std::memory_order_acquire); }

  /// A lane that is always dead, for packets without a destination.
  [[nodiscard]] Lane& null_lane() const { return *nowhere_; }

  /// The lane for a pair of QPs; requested from the daemon if it does not exist.
  [[nodiscard]] Lane& lane_to(uabi::ProcessAddress peer, Qpn own, Qpn other);

  /// The daemon has joined this process with another one in shared memory: opens their lanes, and
  /// calls `opened` for each before any thread polls it. False if they cannot be joined. On the
  /// control thread.
  template <class Opened>
  bool join(const uabi::Lane& message, const std::vector<os::UniqueFd>& descriptors,
            Opened opened) {
    const std::lock_guard joining{joining_lock_};
    const std::lock_guard guard{lock_};
    const Pair* const pair = join_memory(message, descriptors);
    if (pair != nullptr) {
      for_each_lane(*pair, [&](Lane& lane) {
        lane.open(*pair->memory, message.side == 0 ? ring::LaneSide::A : ring::LaneSide::B);
        opened(lane);
      });
    }
    return pair != nullptr;
  }

  /// A peer or the daemon is gone: closes the lanes to that peer by `close`, and gives up the
  /// shared memory. On the control thread.
  template <class Close>
  void part(uabi::ProcessAddress peer, Close close) {
    if (const Pair* const pair = pair_to_part(peer)) {
      for_each_lane(*pair, close);
      pair->first->placement->close();
      placements_.withdraw();  // while the peer's claims can still be seen
      if (pair->memory != nullptr) {
        pair->memory->part();
      }
    }
  }

  /// The daemon has ended: no more lanes are created. Returns the peers to which lanes exist.
  [[nodiscard]] std::vector<uabi::ProcessAddress> end();

  /// Takes ownership of all incoming rings and keeps lanes from opening, until release_rings() with
  /// the returned number. Caller must not own a ring.
  [[nodiscard]] std::size_t hold_rings();
  /// Ends hold_rings(); `count` is what it returned.
  void release_rings(std::size_t count);

 private:
  struct Pair {
    Lane* first{};
    std::unique_ptr<PairMemory> memory;  // set when first joined, and kept
  };
  [[nodiscard]] Pair* add_pair(uabi::ProcessAddress peer, PeerPlacement* placement);
  [[nodiscard]] Pair* add_peer(uabi::ProcessAddress peer);
  [[nodiscard]] Pair* join_memory(const uabi::Lane& message,
                                  const std::vector<os::UniqueFd>& descriptors);
  [[nodiscard]] Pair* pair_to_part(uabi::ProcessAddress peer);
  [[nodiscard]] bool reopen(const Pair& pair) const;
  template <class Act>
  void for_each_lane(const Pair& pair, Act act) const {
    for (std::uint32_t index = 0; index < kLanesPerPair; ++index) {
      act(*lanes_[pair.first->number + index]);
    }
  }

  const FabricMap& map_;
  TapSet& taps_;
  LiveLinks& links_;
  std::atomic<std::uint32_t>& waiting_;
  DaemonChannel& daemon_;
  Placements& placements_;
  uabi::ProcessAddress self_;
  Lane* nowhere_{};
  std::vector<std::unique_ptr<Lane>> lanes_ = std::vector<std::unique_ptr<Lane>>(kMaxLanes);
  std::atomic<std::size_t> count_{0};
  alignas(64) std::mutex joining_lock_;  // required for opening lanes; precedes ownership of rings
  std::mutex lock_;                      // guards the members below, and growing
  std::map<uabi::ProcessAddress, Pair> pairs_;  // nodes of a map have stable addresses
  bool has_ended_{};
};

}  // namespace weft::host
