#include "station/lane_choice.h"

#include <gtest/gtest.h>

#include <set>

namespace weft::station {
namespace {

constexpr ProcessAddress kA{.node = 0, .slot = 1};
constexpr ProcessAddress kB{.node = 3, .slot = 1};

TEST(LaneChoice, IsTheSameInBothProcesses) {
  for (std::uint32_t a = 0x4000; a < 0x4010; ++a) {
    for (std::uint32_t b = 0x8000; b < 0x8010; ++b) {
      EXPECT_EQ(lane_index_for(kA, Qpn{a}, kB, Qpn{b}), lane_index_for(kB, Qpn{b}, kA, Qpn{a}));
      EXPECT_EQ(lane_index_for(kA, Qpn{a}, kA, Qpn{b}), lane_index_for(kA, Qpn{b}, kA, Qpn{a}))
          << "within one process";
    }
  }
}

TEST(LaneChoice, SpreadsNeighbouringQpns) {
  std::set<std::uint32_t> used;
  for (std::uint32_t i = 0; i < kLanesPerPair; ++i) {
    used.insert(lane_index_for(kA, Qpn{0x4000 + i}, kB, Qpn{0x4000 + i}));
  }
  EXPECT_EQ(used.size(), kLanesPerPair);
}

}  // namespace
}  // namespace weft::station
