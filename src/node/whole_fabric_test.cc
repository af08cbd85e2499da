// What a fabric promises from a cold start on (part of T-MI-8 and others).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "fabric/topology.h"
#include "node/testing/managed_fabric.h"
#include "node/testing/sa_client.h"
#include "verbs/mtu.h"
#include "wire/mad/path_record.h"

namespace weft::node {
namespace {

using ::testing::IsEmpty;
using testing::ManagedFabric;
using testing::SaClient;
using wire::kComponent;

/// A triangle of switches, with hosts h1, h2, ... on each in turn.
[[nodiscard]] fabric::Topology triangle(std::uint32_t hosts) {
  fabric::Topology topology;
  constexpr std::uint32_t kSwitches = 3;
  constexpr std::uint8_t kPorts = 12;
  for (std::uint32_t i = 0; i < kSwitches; ++i) {
    topology.switches.push_back(
        {.name = "s" + std::to_string(i + 1), .port_count = kPorts, .guid = {}});
  }
  const auto at_switch = [](std::uint32_t number, std::uint32_t port) {
    return fabric::EndPoint{.kind = fabric::NodeKind::Switch,
                            .node = number,
                            .hca = 0,
                            .port = PortNumber{static_cast<std::uint8_t>(port)}};
  };
  for (std::uint32_t i = 0; i < kSwitches; ++i) {
    topology.links.push_back(
        {at_switch(i, kPorts), at_switch((i + 1) % kSwitches, kPorts - 1), {}, {}});
  }
  for (std::uint32_t i = 0; i < hosts; ++i) {
    topology.hosts.push_back(fabric::make_host("h" + std::to_string(i + 1)));
    const fabric::EndPoint host{fabric::NodeKind::Host, i, 0, PortNumber{1}};
    topology.links.push_back({at_switch(i % kSwitches, i / kSwitches + 1), host, {}, {}});
  }
  return topology;
}

TEST(WholeFabric, OfThreeSwitchesComesUpWithinASecondAndGoesRoundACut) {
  ManagedFabric fabric{triangle(16)};
  fabric.add_manager("h1");
  fabric.run_for(Duration::milliseconds(999));
  for (const fabric::PortRecord& port : fabric.builder.ports()) {
    if (port.peer != fabric::kNoPort) {
      EXPECT_EQ(port.state, fabric::PortState::Active);
    }
  }
  EXPECT_THAT(fabric.unreachable(), IsEmpty());

  ASSERT_TRUE(fabric.plane.set_link(fabric.port("s1", 12), false, fabric.now).has_value());
  EXPECT_THAT(fabric.unreachable(), ::testing::Not(IsEmpty()));
  fabric.settle();
  EXPECT_THAT(fabric.unreachable(), IsEmpty());
}

class PathMtu : public ::testing::TestWithParam<verbs::Mtu> {};

/// What the narrowest port of a path takes is what its cable is set to, and what the SA and the
/// packets' own way say.
TEST_P(PathMtu, IsNegotiatedEndToEnd) {  // T-MI-8
  fabric::Topology topology = triangle(4);
  topology.hosts[1].hcas[0].ports[0].max_mtu = GetParam();
  ManagedFabric fabric{topology};
  fabric.add_services("h1");
  fabric.settle();
  const fabric::PortIndex h2_port = fabric.port("h2", 1);
  const fabric::PortRecord& narrow = fabric.builder.port(h2_port);
  EXPECT_EQ(narrow.active_mtu, GetParam());
  EXPECT_EQ(fabric.builder.port(narrow.peer).active_mtu, GetParam());

  SaClient h3{fabric, "h3"};
  SaClient h2{fabric, "h2"};
  SaClient h4{fabric, "h4"};
  const auto mtu_to = [&](const SaClient& to) {
    const auto answer =
        h3.ask(wire::MadMethod::Get, wire::SaAttribute::PathRecord,
               wire::PathRecord{.dgid = to.gid(), .sgid = h3.gid()},
               kComponent<wire::PathRecord, "DGID"> | kComponent<wire::PathRecord, "SGID">);
    EXPECT_EQ(answer.status, 0);
    const auto path = *wire::parse<wire::PathRecord>(answer.data);
    const auto image = fabric.builder.build(1);
    const auto view = fabric::TablesView::open(image);
    const auto told = static_cast<verbs::Mtu>(path.mtu);
    EXPECT_EQ(fabric::resolve(*view, fabric.port("h3", 1), path.dlid).mtu, told);
    return told;
  };
  EXPECT_EQ(mtu_to(h2), GetParam());
  EXPECT_EQ(mtu_to(h4), verbs::Mtu::Mtu4096);
}

INSTANTIATE_TEST_SUITE_P(Each, PathMtu,
                         ::testing::Values(verbs::Mtu::Mtu256, verbs::Mtu::Mtu512,
                                           verbs::Mtu::Mtu1024, verbs::Mtu::Mtu2048,
                                           verbs::Mtu::Mtu4096));

}  // namespace
}  // namespace weft::node
