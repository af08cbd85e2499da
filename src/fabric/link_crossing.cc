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

CrossedCopy LinkCrossing::copy_of(const FaultEffect& effect, std::span<const Hop> hops) {
  CrossedCopy copy;
  copy.hop = effect.hop;
  copy.held_back = effect.held_back;
  switch (effect.end) {
    case FaultEffect::End::Arrives:
      break;
    case FaultEffect::End::Lost:
      copy.end = PathEnd::PortInactive;
      copy.counted_at = hops[effect.hop].egress;
      break;
    case FaultEffect::End::Damaged:
      copy.end = PathEnd::Damaged;
      copy.counted_at = hops[effect.hop].ingress;
      break;
  }
  return copy;
}

/// The rules of `edge`, which are removed from the front of `rest`.
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
    const FaultEffects effects = fabric::cross(rules, packet, faults_);
    for (const FaultEffect& effect : effects.all()) {
      switch (effect.end) {
        case FaultEffect::End::Arrives:
          crossing.arrived += crossing.arrived < FaultEffects::kMaxCopies ? 1 : 0;
          crossing.held_back = std::max(crossing.held_back, before.held_back + effect.held_back);
          break;
        case FaultEffect::End::Lost:
          ++crossing.lost;
          break;
        case FaultEffect::End::Damaged:
          ++crossing.damaged;
          break;
      }
    }
  }
}

}  // namespace weft::fabric
