#pragma once

// The rules of faults on each link of tables that still change: found once for each port that sends
// on one, until the rules change. Paths of published tables carry theirs (fabric/path.h). One
// thread.

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "fabric/path.h"
#include "fabric/tables.h"

namespace weft::fabric {

class LinkRules {
 public:
  /// `tables` must outlive it.
  explicit LinkRules(const TablesBuilder& tables) : tables_(tables) {}

  /// In their order, each on hop 0; good until the rules change.
  [[nodiscard]] std::span<const LinkFault> of(PortIndex egress);

 private:
  const TablesBuilder& tables_;
  std::unordered_map<PortIndex, std::vector<LinkFault>> rules_;  // as of `changes_`
  std::uint64_t changes_{};
};

}  // namespace weft::fabric
