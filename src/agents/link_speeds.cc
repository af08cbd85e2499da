#include "agents/link_speeds.h"

#include <array>
#include <bit>

namespace weft::agents {
namespace {

/// All bits up to the highest one set in `bits`.
constexpr std::uint8_t up_to(std::uint8_t bits) {
  return static_cast<std::uint8_t>(std::bit_ceil(bits + 1U) - 1);
}

struct Width {
  std::uint8_t bit;
  std::uint32_t lanes;
};
constexpr std::array<Width, 5> kWidths = {
    {{8, 12}, {4, 8}, {2, 4}, {16, 2}, {1, 1}}
};  // widest first

struct Speed {
  std::uint8_t bit;
  std::uint32_t lane_mbps;
};
constexpr std::array<Speed, 4> kExtended = {
    {{8, 100'000}, {4, 50'000}, {2, 25'000}, {1, 14'000}}
};
constexpr std::array<Speed, 3> kSpeeds = {
    {{4, 10'000}, {2, 5'000}, {1, 2'500}}
};

}  // namespace

std::uint8_t supported_widths(const fabric::LinkSpeed& best) { return up_to(best.width); }

std::uint8_t supported_speeds(const fabric::LinkSpeed& best) { return up_to(best.speed); }

std::uint8_t supported_extended_speeds(const fabric::LinkSpeed& best) {
  return best.extended == 0 ? 0 : up_to(best.extended);
}

std::optional<fabric::LinkSpeed> negotiate(const EnabledSpeeds& a, const EnabledSpeeds& b,
                                           const fabric::LinkSpeed& best) {
  fabric::LinkSpeed agreed;
  std::uint32_t lanes = 0;
  for (const Width& width : kWidths) {
    if ((a.widths & b.widths & width.bit) != 0) {
      agreed.width = width.bit;
      lanes = width.lanes;
      break;
    }
  }
  std::uint32_t lane_mbps = 0;
  for (const Speed& speed : kExtended) {
    if ((a.extended & b.extended & speed.bit) != 0) {
      agreed.extended = speed.bit;
      agreed.speed = 4;  // reported to subnet managers that do not know extended speeds
      lane_mbps = speed.lane_mbps;
      break;
    }
  }
  for (const Speed& speed : kSpeeds) {
    if (lane_mbps == 0 && (a.speeds & b.speeds & speed.bit) != 0) {
      agreed.speed = speed.bit;
      lane_mbps = speed.lane_mbps;
    }
  }
  if (lanes == 0 || lane_mbps == 0) {
    return std::nullopt;
  }
  agreed.rate_mbps = lanes * lane_mbps;
  const bool is_best =
      agreed.width == best.width && agreed.speed == best.speed && agreed.extended == best.extended;
  if (is_best) {
    agreed.rate_mbps = best.rate_mbps;
  }
  return agreed;
}

}  // namespace weft::agents
