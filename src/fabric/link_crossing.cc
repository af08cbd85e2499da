#include "fabric/link_crossing.h"

#include <algorithm>

namespace weft::fabric {

std::span<const Hop> CrossedCopy::seen(std::span<const Hop> hops,
                                       std::array<Hop, kMaxHops>& room) const {
  if (is_delivered()) {
    return hops;
  }
  std::ranges::copy(hops.first(hop + 1), room.begin());
  room[hop].ingress = kNoPort;
  return std::span{room}.first(hop + 1);
}

CrossedCopy LinkCrossing::copy_of(const Fate& fate, std::span<const Hop> hops) {
  CrossedCopy copy;
  copy.hop = fate.hop;
  copy.held_back = fate.held_back;
  switch (fate.end) {
    case Fate::End::Arrives:
      break;
    case Fate::End::Lost:
      copy.end = PathEnd::PortInactive;
      copy.counted_at = hops[fate.hop].egress;
      break;
    case Fate::End::Damaged:
      copy.end = PathEnd::Damaged;
      copy.counted_at = hops[fate.hop].ingress;
      break;
  }
  return copy;
}

/// Those of `edge`, which are taken off `rest`.
std::span<const LinkFault> LinkCrossing::rules_of(std::uint32_t edge,
                                                  std::span<const LinkFault>& rest) {
  const auto behind =
      std::ranges::find_if(rest, [&](const LinkFault& fault) { return fault.hop != edge; });
  const auto here = rest.first(static_cast<std::size_t>(behind - rest.begin()));
  rest = rest.subspan(here.size());
  return here;
}

void LinkCrossing::cross_edge(std::span<const LinkFault> rules, const FaultSubject& packet,
                              const EdgeCrossing& before, EdgeCrossing& crossing) {
  crossing.held_back = before.held_back;
  for (std::uint32_t i = 0; i < before.arrived; ++i) {
    const Fates fates = fabric::cross(rules, packet, faults_);
    for (const Fate& fate : fates.all()) {
      switch (fate.end) {
        case Fate::End::Arrives:
          crossing.arrived += crossing.arrived < Fates::kMostCopies ? 1 : 0;
          crossing.held_back = std::max(crossing.held_back, before.held_back + fate.held_back);
          break;
        case Fate::End::Lost:
          ++crossing.lost;
          break;
        case Fate::End::Damaged:
          ++crossing.damaged;
          break;
      }
    }
  }
}

}  // namespace weft::fabric
