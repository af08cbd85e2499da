#include "daemon/qp_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "fabric/testing/running_fabric.h"
#include "fabric/topology.h"
#include "host/placement/peer_placement.h"
#include "verbs/qp_state.h"
#include "verbs/qp_type.h"

namespace weft::daemon {
namespace {

using nlohmann::json;

[[nodiscard]] uabi::HeldQp held(verbs::QpType type, host::PlacementWay way) {
  return {.number = Qpn{0x4001},
          .type = std::to_underlying(type),
          .state = std::to_underlying(verbs::QpState::Rts),
          .port = 1,
          .dest = Qpn{0x4002},
          .placement = std::to_underlying(way)};
}

[[nodiscard]] json report(const uabi::HeldQp& qp) {
  fabric::testing::RunningFabric fabric{*fabric::generate_star(2)};
  uabi::ObjectsHeld part;
  part.qps = {qp};
  const ProgramStatus program{
      .process = {.host = fabric.node("h2"), .slot = 1},
        .pid = 77, .program = "ib_write_bw"
  };
  return json::parse(qps_json(fabric.view(), {
                                                 {.program = program, .held = {part}}
  }));
}

TEST(QpReport, SaysWhichWayAnRcQpsMessagesWent) {
  const json qps = report(held(verbs::QpType::Rc, host::PlacementWay::PathIsWatched));
  ASSERT_EQ(qps.size(), 1U);
  EXPECT_EQ(qps[0]["host"], "h2");
  EXPECT_EQ(qps[0]["pid"], 77);
  EXPECT_EQ(qps[0]["state"], "RTS");
  EXPECT_EQ(qps[0]["destination"], 0x4002);
  EXPECT_EQ(qps[0]["way"], "packets");
  EXPECT_EQ(qps[0]["why"], "a capture, a rule of faults, a rate or a delay is on the path");
  EXPECT_EQ(report(held(verbs::QpType::Rc, host::PlacementWay::Placed))[0]["way"], "placed");
  const json in_pages = report(held(verbs::QpType::Rc, host::PlacementWay::SharedPages));
  EXPECT_EQ(in_pages[0]["way"], "placed");
  EXPECT_EQ(in_pages[0]["why"], "shared pages: the initiator copies into pages that both map");
  const json atomics = report(held(verbs::QpType::Rc, host::kLastPlacementWay));
  EXPECT_EQ(atomics[0]["way"], "packets");
  EXPECT_EQ(atomics[0]["why"], "atomics are packets where no pages of the memory can be shared");
}

TEST(QpReport, SaysNothingOfTheWayOfDatagrams) {
  const json qps = report(held(verbs::QpType::Ud, host::PlacementWay::NotTried));
  ASSERT_EQ(qps.size(), 1U);
  EXPECT_FALSE(qps[0].contains("way"));
  EXPECT_FALSE(qps[0].contains("destination"));
}

TEST(QpReport, LeavesOutWhatAProgramCannotMean) {
  uabi::HeldQp qp = held(verbs::QpType::Rc, host::PlacementWay::Placed);
  qp.placement = 99;
  EXPECT_TRUE(report(qp).empty());
  qp = held(verbs::QpType::Rc, host::PlacementWay::Placed);
  qp.state = 99;
  EXPECT_TRUE(report(qp).empty());
}

}  // namespace
}  // namespace weft::daemon
