#include "fabric/departure_clocks.h"

#include <algorithm>

#include "base/assert.h"

namespace weft::fabric {

std::size_t DepartureClocks::bytes_needed(std::size_t ports) { return ports * sizeof(Slot); }

DepartureClocks DepartureClocks::open(MutableByteSpan memory) {
  DepartureClocks clocks;
  void* const start = memory.data();
  clocks.slots_ = {static_cast<Slot*>(start), memory.size() / sizeof(Slot)};
  return clocks;
}

Transit DepartureClocks::reserve_link(Instant now, std::uint64_t bytes, PortIndex egress,
                                      LinkRate rate) {
  return egress.value() < slots_.size()
             ? slots_[egress.value()].clock.reserve(now, bytes, rate, Duration{})
             : transit(now, now, bytes, rate, Duration{});
}

std::optional<Transit> DepartureClocks::reserve_cable(Instant now, std::uint64_t bytes,
                                                      PortIndex egress, LinkRate rate,
                                                      DepartureClock* vl15) {
  if (rate.megabits_per_second == 0) {
    return transit(now, now, bytes, rate, Duration{});
  }
  if (vl15 != nullptr) {
    const auto before_all = vl15->reserve_within(now, bytes, rate, HeadOfQueueLifetime{});
    if (before_all) {
      static_cast<void>(reserve_link(now, bytes, egress, rate));
    }
    return before_all;
  }
  return egress.value() < slots_.size()
             ? slots_[egress.value()].clock.reserve_within(now, bytes, rate, HeadOfQueueLifetime{})
             : transit(now, now, bytes, rate, Duration{});
}

Transit DepartureClocks::reserve(Instant now, std::uint64_t bytes, const Path& path) {
  Transit whole{.starts = now, .departs = now, .arrives = now};
  for (const RatedLink& link : path.rated) {
    const Transit one = reserve_link(now, bytes, link.egress, link.rate);
    whole.starts = std::max(whole.starts, one.starts);
    whole.departs = std::max(whole.departs, one.departs);
  }
  whole.arrives = whole.departs + path.delay;
  return whole;
}

void DepartureClocks::reserve(Instant now, std::uint64_t bytes, const MulticastTree& tree,
                              std::vector<Transit>& ends) {
  WEFT_DEBUG_ASSERT(tree.timed.size() == tree.edges.size(), "each edge of a tree has its time");
  ends.clear();
  for (std::size_t i = 0; i < tree.edges.size(); ++i) {
    const TimedEdge& edge = tree.timed[i];
    const Transit one = reserve_link(now, bytes, tree.edges[i].egress, edge.rate);
    const Transit before = edge.parent < i ? ends[edge.parent]
                                           : Transit{.starts = now, .departs = now, .arrives = now};
    const Duration delay = before.arrives - before.departs + edge.delay;
    Transit& end = ends.emplace_back();
    end.starts = std::max(before.starts, one.starts);
    end.departs = std::max(before.departs, one.departs);
    end.arrives = end.departs + delay;
  }
}

}  // namespace weft::fabric
