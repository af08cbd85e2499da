#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/identifiers.h"
#include "base/keys.h"
#include "wire/encodings.h"

namespace weft::hca {

enum class PortState : std::uint8_t { Down = 1, Initialize = 2, Armed = 3, Active = 4 };

/// What the subnet manager set and the engines need of a port; the driver replaces it as a whole
/// when it changes.
struct PortAttributes {
  PortState state{PortState::Down};
  Lid lid;
  std::uint8_t lmc{};
  Lid sm_lid;
  ServiceLevel sm_sl;
  wire::Mtu max_mtu{wire::Mtu::Mtu4096};
  wire::Mtu active_mtu{wire::Mtu::Mtu4096};
  std::uint8_t active_width{};  // PortInfo LinkWidthActive encoding
  std::uint8_t active_speed{};  // PortInfo LinkSpeedActive encoding
  std::vector<Gid> gids;
  std::vector<PKey> pkeys;
  bool operator==(const PortAttributes&) const = default;

  /// The source LID with these path bits, of which LMC counts (IBTA vol 1 §4.1.3).
  [[nodiscard]] Lid source_lid(std::uint8_t path_bits) const {
    return Lid{lid.value() | (path_bits & ((1U << lmc) - 1))};
  }
  /// Entry `index` of the P_Key table; not valid where the table has none.
  [[nodiscard]] PKey pkey(std::uint16_t index) const {
    return index < pkeys.size() ? pkeys[index] : PKey{};
  }
};

}  // namespace weft::hca
