#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/identifiers.h"
#include "base/keys.h"
#include "wire/mad/mad.h"

namespace weft::mad {

using MadBytes = std::array<std::byte, wire::kMadBytes>;

/// The global part of an address: what a GRH says of the other side (IBTA vol 1 §8.3).
struct GlobalRoute {
  Gid gid{};
  std::uint8_t hop_limit{};
  std::uint8_t tclass{};
  std::uint32_t flow_label{};
  friend constexpr bool operator==(const GlobalRoute&, const GlobalRoute&) = default;
};

/// The other side of a MAD: whom it goes to, or whom it came from.
struct MadAddress {
  Lid lid{};
  ServiceLevel sl{};
  Qpn qp{kQp1};
  QKey qkey{kGsiQKey};
  PKey pkey{kDefaultPKey};
  std::uint8_t path_bits{};  ///< of this side's LID
  std::optional<GlobalRoute> global{};
  friend constexpr bool operator==(const MadAddress&, const MadAddress&) = default;
};

/// A MAD on its way.
struct MadPacket {
  MadAddress address{};
  MadBytes bytes{};
};

}  // namespace weft::mad
