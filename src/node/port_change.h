#pragma once

// What a person changes of a port while the fabric runs, as `weft link` and `weft port` say it.

#include <optional>
#include <string_view>

#include "agents/fabric_agents.h"
#include "base/result.h"

namespace weft::node {

struct PortChange {
  std::optional<bool> is_plugged;  // its cable
  bool enables{};                  // a port that was disabled; of others nothing
  agents::PortSettings settings;
};

inline constexpr std::string_view kPortChangeWords =
    "plug, unplug, disable, enable, reset, down, arm, active, width=1x,2x,4x,8x,12x and "
    "speed=sdr,ddr,qdr,fdr,edr,hdr,ndr";

/// Words of kPortChangeWords with spaces between them; width and speed also take `all`. Whoever
/// changes them wants them to count, so the link trains again.
[[nodiscard]] Result<PortChange> read_port_change(std::string_view text);

}  // namespace weft::node
