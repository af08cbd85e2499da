#pragma once

#include <cstdint>
#include <utility>

#include "base/identifiers.h"
#include "base/keys.h"
#include "verbs/mtu.h"

namespace weft::verbs {

/// A path between two ports (IBTA vol 1 §15.2.5.16) as its users know it, without the selectors of
/// a question. Seen from this side: `sgid` and `slid` are its own.
struct Path {
  Gid sgid{};
  Gid dgid{};
  Lid slid{};
  Lid dlid{};
  ServiceLevel sl{};
  PKey pkey{kDefaultPKey};
  Mtu mtu{Mtu::Mtu2048};
  std::uint8_t rate{};              // a PathRecord's code, 6 bits; 0 the port's own
  std::uint8_t packet_life_time{};  // exponent, as TimeoutExponent, but 6 bits
  std::uint8_t traffic_class{};
  std::uint8_t hop_limit{};
  std::uint32_t flow_label{};  // 20 bits
  bool is_reversible{true};
  friend constexpr bool operator==(const Path&, const Path&) = default;

  /// Packets need a GRH: the other side is behind a router, which SA tells by a hop limit above 1.
  [[nodiscard]] constexpr bool is_global() const { return hop_limit > 1; }
  /// The path as the other side sees it.
  [[nodiscard]] constexpr Path reversed() const {
    Path path = *this;
    std::swap(path.sgid, path.dgid);
    std::swap(path.slid, path.dlid);
    return path;
  }
};

}  // namespace weft::verbs
