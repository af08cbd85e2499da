#pragma once

#include <algorithm>
#include <cstdint>

#include "base/identifiers.h"
#include "base/keys.h"
#include "base/strong.h"
#include "verbs/port_attributes.h"

namespace weft::sa {

/// A port of the host; the owner chooses the numbers (`node` uses the index in the fabric's
/// tables).
using PortKey = Ordered<struct PortKeyTag, std::uint32_t>;

/// A port of the host as subnet management has set it (IBTA vol 1 §14.2.5.6).
struct LocalPort : verbs::PortAttributes {
  std::uint8_t reregistrations{};  ///< number of client reregistration requests, modulo 256
  bool operator==(const LocalPort&) const = default;

  [[nodiscard]] bool is_active() const { return state == verbs::PortState::Active; }
  /// SA can be queried: the port is Active and knows the SM's LID.
  [[nodiscard]] bool can_query() const { return is_active() && sm_lid != Lid{} && !gids.empty(); }

  /// The P_Key of MADs to SA: that of the default partition, in which every managed port is at
  /// least a limited member (IBTA vol 1 §10.9.1.1); otherwise the first P_Key.
  [[nodiscard]] PKey management_pkey() const {
    const auto found = std::ranges::find(pkeys, kDefaultPKey.base(), &PKey::base);
    return found != pkeys.end() ? *found : pkeys.empty() ? kDefaultPKey : pkeys.front();
  }
};

}  // namespace weft::sa
