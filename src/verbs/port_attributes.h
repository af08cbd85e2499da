#pragma once

#include <cstdint>
#include <vector>

#include "base/identifiers.h"
#include "base/keys.h"
#include "verbs/mtu.h"
#include "verbs/port_state.h"

namespace weft::verbs {

/// A port as subnet management has set it and as its users see it (IBTA vol 1 §11.2.1.2,
/// §14.2.5.6). A value: whoever keeps one replaces it as a whole when the port changes.
struct PortAttributes {
  PortState state{PortState::Down};
  Lid lid{};
  std::uint8_t lmc{};
  Lid sm_lid{};
  ServiceLevel sm_sl{};
  Mtu max_mtu{Mtu::Mtu4096};     // MTUCap
  Mtu active_mtu{Mtu::Mtu4096};  // NeighborMTU
  std::uint8_t active_width{};   // PortInfo LinkWidthActive encoding
  std::uint8_t active_speed{};   // PortInfo LinkSpeedActive encoding
  std::vector<Gid> gids{};       // the default GID first
  std::vector<PKey> pkeys{};
  bool operator==(const PortAttributes&) const = default;

  /// The source LID with these path bits, of which LMC count (IBTA vol 1 §4.1.3).
  [[nodiscard]] Lid source_lid(std::uint8_t path_bits) const {
    return Lid{lid.value() | (path_bits & ((1U << lmc) - 1))};
  }
  /// Entry `index` of the P_Key table; not valid where the table has none.
  [[nodiscard]] PKey pkey(std::uint16_t index) const {
    return index < pkeys.size() ? pkeys[index] : PKey{};
  }
};

}  // namespace weft::verbs
