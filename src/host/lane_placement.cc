// Direct placement on a lane (docs/ARCHITECTURE.md, decision 18): whether its path allows it.

#include <mutex>

#include "host/lane.h"

namespace weft::host {
namespace {

[[nodiscard]] bool is_plain(const fabric::Path& path) {
  return path.is_delivered() && !path.is_tapped && !path.is_timed() && path.faults.empty();
}

}  // namespace

/// Captures, rules and rates come with new tables. Packets that are still under way from before
/// them take their time, though.
Lane::PlacementPath Lane::find_placement_path(const hca::PacketHeader& request,
                                              fabric::CounterPage& page, PolicyLock& page_lock) {
  if (is_to_self()) {
    return {.way = PlacementWay::SameProcess};
  }
  if (placement == nullptr || state() != LaneState::Open) {
    return {.way = PlacementWay::NotGranted};
  }
  Out& requests = out(hca::Flow::Request);
  const Route& there = route(requests, request, page, page_lock);
  PlacementPath& known = placement_path_;
  if (known.route_key != there.route_key || known.generation != there.generation) {
    known = {.route_key = there.route_key,
             .generation = there.generation,
             .way = PlacementWay::PathIsWatched,
             .requests = there.counter,
             .answers = nullptr};
    const fabric::Path back = map_.resolve(peer.node, request.dlid, request.slid, request.sl);
    if (is_plain(there.path) && is_plain(back)) {
      const std::lock_guard guard{page_lock};
      known.answers = &page.open(back, request.sl);
      known.way = PlacementWay::Placed;
    }
  }
  return requests.delayed == 0 ? known : PlacementPath{.way = PlacementWay::PathIsWatched};
}

}  // namespace weft::host
