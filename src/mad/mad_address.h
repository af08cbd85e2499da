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

/// The global part of an address, from or for a GRH (IBTA vol 1 §8.3).
struct GlobalRoute {
  Gid gid{};
  std::uint8_t hop_limit{};
  std::uint8_t tclass{};
  std::uint32_t flow_label{};
  friend constexpr bool operator==(const GlobalRoute&, const GlobalRoute&) = default;
};

/// The address of a MAD's remote side: its destination or its source.
struct MadAddress {
  Lid lid{};
  ServiceLevel sl{};
  Qpn qp{kQp1};
  QKey qkey{kGsiQKey};
  PKey pkey{kDefaultPKey};
  std::uint8_t path_bits{};  ///< of the local LID
  std::optional<GlobalRoute> global{};
  friend constexpr bool operator==(const MadAddress&, const MadAddress&) = default;
};

/// An outgoing MAD with its destination.
struct MadPacket {
  MadAddress address{};
  MadBytes bytes{};
};

}  // namespace weft::mad
