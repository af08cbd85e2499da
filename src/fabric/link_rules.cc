#include "fabric/link_rules.h"

namespace weft::fabric {

std::span<const LinkFault> LinkRules::of(PortIndex egress) {
  if (tables_.faults().empty()) {
    return {};
  }
  if (changes_ != tables_.fault_changes()) {
    rules_.clear();
    changes_ = tables_.fault_changes();
  }
  const auto [place, is_new] = rules_.try_emplace(egress);
  if (is_new) {
    for (const FaultRecord& rule : tables_.faults()) {
      if (rule.egress == kNoPort || rule.egress == egress) {
        place->second.push_back({.hop = 0, .rule = rule});
      }
    }
  }
  return place->second;
}

}  // namespace weft::fabric
