#pragma once

#include <mutex>

#include "hca/packet.h"
#include "host/fabric_map.h"
#include "host/lane_table.h"

namespace weft::host {

/// Chooses the lanes that QPs send on: the lane to the process that the destination QPN names, on
/// the node that owns the DLID now (docs/ARCHITECTURE.md, decision 3). Owns its lock; any thread.
class LaneBinder {
 public:
  LaneBinder(const FabricMap& map, LaneTable& lanes) : map_(map), lanes_(lanes) {}
  LaneBinder(const LaneBinder&) = delete;
  LaneBinder& operator=(const LaneBinder&) = delete;

  /// A connected QP has a destination, or tables have changed: binds it to its lane, and its CQs
  /// look at that lane. True if it is another lane than before.
  bool bind(QpDriverState& qp_state);

  // The next two with the lock of the QP held; for QPs that send datagrams.

  /// True if lane_of() answers from memory.
  [[nodiscard]] bool knows_lane(const QpDriverState& qp_state,
                                const hca::PacketHeader& header) const {
    return qp_state.newest_lane != nullptr && qp_state.newest_dlid == header.dlid &&
           qp_state.newest_qpn == header.dest_qp &&
           qp_state.newest_generation == map_.generation() &&
           qp_state.newest_lane->state() != LaneState::Dead;
  }
  /// The lane for one packet; remembers it for the next.
  [[nodiscard]] Lane& lane_of(QpDriverState& qp_state, const hca::PacketHeader& header);

 private:
  const FabricMap& map_;
  LaneTable& lanes_;
  std::mutex lock_;  // one bind() at a time, or the answer of older tables could remain
};

}  // namespace weft::host
