#pragma once

// Changes of a port at run time, as requested by `weft link` and `weft port`.

#include <optional>
#include <string_view>

#include "agents/fabric_agents.h"
#include "base/result.h"

namespace weft::node {

/// A parsed request.
struct PortChange {
  std::optional<bool> is_plugged;  // whether its cable is plugged in
  bool enables{};                  // only affects a port that was disabled
  agents::PortSettings settings;
};

inline constexpr std::string_view kPortChangeGrammar =
    "plug, unplug, disable, enable, reset, down, arm, active, width=1x,2x,4x,8x,12x and "
    "speed=sdr,ddr,qdr,fdr,edr,hdr,ndr";

/// Parses space-separated words of kPortChangeGrammar; width and speed also accept `all`. Changing
/// either retrains the link, so that the new value takes effect.
[[nodiscard]] Result<PortChange> read_port_change(std::string_view text);

}  // namespace weft::node
