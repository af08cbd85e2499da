#pragma once

// The fault rules of each link in tables under construction, cached per sending port until the
// rules change. Paths of published tables contain theirs (fabric/path.h). Single-threaded.

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "fabric/path.h"
#include "fabric/tables.h"

namespace weft::fabric {

class LinkRules {
 public:
  /// `tables` must outlive this object.
  explicit LinkRules(const TablesBuilder& tables) : tables_(tables) {}

  /// The rules of the link on which `egress` sends, in order, each on hop 0; valid until the rules
  /// change.
  [[nodiscard]] std::span<const LinkFault> of(PortIndex egress);

 private:
  const TablesBuilder& tables_;
  std::unordered_map<PortIndex, std::vector<LinkFault>> rules_;  // valid for `changes_`
  std::uint64_t changes_{};
};

}  // namespace weft::fabric
