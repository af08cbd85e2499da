#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/identifiers.h"
#include "base/keys.h"
#include "verbs/address_vector.h"
#include "wire/mad/mad.h"

namespace weft::mad {

using MadBytes = std::array<std::byte, wire::kMadBytes>;

using verbs::GlobalRoute;

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
