#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/identifiers.h"
#include "base/keys.h"
#include "base/strong.h"
#include "wire/encodings.h"

namespace weft::sa {

/// How a host calls one of its ports; the number is its user's (in `node` the index in the tables).
using PortKey = Ordered<struct PortKeyTag, std::uint32_t>;

/// A port as its host sees it now: what subnet management has set (IBTA vol 1 §14.2.5.6).
struct LocalPort {
  Lid lid{};
  std::uint8_t lmc{};
  bool is_active{};
  wire::Mtu mtu{wire::Mtu::Mtu2048};
  Lid sm_lid{};
  ServiceLevel sm_sl{};
  std::uint8_t reregistrations{};  ///< how often clients were asked to register again, modulo 256
  std::vector<Gid> gids{};         ///< the default GID first
  std::vector<PKey> pkeys{};
  bool operator==(const LocalPort&) const = default;

  /// SA can be asked: the port carries data, and somebody manages it.
  [[nodiscard]] bool can_ask() const { return is_active && sm_lid != Lid{} && !gids.empty(); }

  /// The P_Key for MADs to SA: that of the default partition, of which every port that is managed
  /// is a member, if a limited one (IBTA vol 1 §10.9.1.1); else the first.
  [[nodiscard]] PKey management_pkey() const {
    const auto found = std::ranges::find(pkeys, kDefaultPKey.base(), &PKey::base);
    return found != pkeys.end() ? *found : pkeys.empty() ? kDefaultPKey : pkeys.front();
  }
};

}  // namespace weft::sa
