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
#include "host/tap_set.h"
#include "ring/doorbell_bitmap.h"
#include "uabi/messages.h"

namespace weft::host {

/// Of all pairs that a process belongs to, 1,023; what is sent to more is lost. As many as a board
/// has bells.
inline constexpr std::size_t kMaxLanes = ring::DoorbellBitmap::kDoorbells;

/// The lanes of a process: those of a pair of processes lie together, live and die together. An
/// array that only grows, so that looking at a lane by its number needs no lock. Owns its locks;
/// any thread, what says so is the control thread's.
class LaneTable {
 public:
  /// `waiting` counts the QPs that wait for room on any lane.
  LaneTable(const FabricMap& map, TapSet& taps, LiveLinks& links,
            std::atomic<std::uint32_t>& waiting, DaemonChannel& daemon)
      : map_(map), taps_(taps), links_(links), waiting_(waiting), daemon_(daemon) {}
  LaneTable(const LaneTable&) = delete;
  LaneTable& operator=(const LaneTable&) = delete;

  /// Before all else, once: the lanes to nowhere, and those to this process itself in `own`.
  void open(uabi::ProcessAddress self, std::unique_ptr<PairMemory> own);

  /// By number, below count().
  [[nodiscard]] Lane* operator[](std::size_t number) const { return lanes_[number].get(); }
  [[nodiscard]] std::size_t count() const { return count_.load(std::memory_order_acquire); }

  /// Always dead: where packets without a destination are counted.
  [[nodiscard]] Lane& null_lane() const { return *nowhere_; }

  /// The lane for that pair of QPs; the daemon is asked for it if need be.
  [[nodiscard]] Lane& lane_to(uabi::ProcessAddress peer, Qpn own, Qpn other);

  /// The daemon has joined this process with another, in memory of both: opens their lanes, and
  /// calls `opened` for each, before anybody looks at its rings. False: they are not joined. On the
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

  /// That process is gone, or the daemon: closes the lanes to it by `close`, and gives up the
  /// memory that was shared. On the control thread.
  template <class Close>
  void part(uabi::ProcessAddress peer, Close close) {
    if (const Pair* const pair = pair_to_part(peer)) {
      for_each_lane(*pair, close);
      if (pair->memory != nullptr) {
        pair->memory->part();
      }
    }
  }

  /// The daemon has ended: no more lanes are made. Returns the peers that there are lanes to.
  [[nodiscard]] std::vector<uabi::ProcessAddress> end();

  /// Owns all rings of incoming packets, and no lane opens, until release_rings() with the same
  /// number. Nobody may hold one of them.
  [[nodiscard]] std::size_t hold_rings();
  void release_rings(std::size_t count);

 private:
  struct Pair {
    Lane* first{};
    std::unique_ptr<PairMemory> memory;  // once joined, for good
  };
  [[nodiscard]] Pair* add_pair(uabi::ProcessAddress peer);
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
  uabi::ProcessAddress self_;
  Lane* nowhere_{};
  std::vector<std::unique_ptr<Lane>> lanes_ = std::vector<std::unique_ptr<Lane>>(kMaxLanes);
  std::atomic<std::size_t> count_{0};
  alignas(64) std::mutex joining_lock_;  // lanes open only under it; before the owners of rings
  std::mutex lock_;                      // of what follows, and of growing
  std::map<uabi::ProcessAddress, Pair> pairs_;  // a node of a map stays where it is
  bool has_ended_{};
};

}  // namespace weft::host
