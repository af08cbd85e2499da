#include "fabric/virtual_ports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fabric/path.h"
#include "fabric/testing/running_fabric.h"

namespace weft::fabric {
namespace {

using ::testing::ElementsAre;
using testing::RunningFabric;

/// h1 and h2 on a switch, and functions 1 and 2 of h1's port, v1 and v2.
class VirtualPorts : public ::testing::Test {
 protected:
  VirtualPorts() {
    Topology topology = *generate_star(2);
    for (const std::string& name : {"v1", "v2"}) {
      topology.hosts.push_back(make_host(name, 1, 1));
      fabric.builder.grow(topology, {});
    }
    fabric.publish();
    std::vector<Gid> gids{fabric.builder.gids(port("h1")).front()};
    std::uint32_t slot = kFirstSlot;
    for (const std::string& name : {"v1", "v2"}) {
      const Gid own{kDefaultGidPrefix, fabric.builder.port(port(name)).guid};
      fabric.builder.set_lid(port(name), fabric.lid("h1"), 0);
      fabric.builder.set_state(port(name), PortState::Active);
      fabric.builder.set_gids(port(name), std::vector{own});
      gids.push_back(own);
      fabric.builder.lend_slots(
          {.lender = fabric.node("h1"), .first_slot = slot, .borrower = port(name)});
      slot += kSlotsPerLoan;
    }
    fabric.builder.set_gids(port("h1"), gids);
    fabric.publish();
  }
  [[nodiscard]] PortIndex port(std::string_view node) const { return fabric.port(node, 1); }
  static constexpr std::uint32_t kFirstSlot = 512;
  [[nodiscard]] static Qpn qpn_of_slot(std::uint32_t slot) { return first_qpn_of(slot); }

  RunningFabric fabric{*generate_star(2)};
};

TEST_F(VirtualPorts, EnterTheFabricAtTheirPhysicalPort) {
  const TablesView view = fabric.view();
  for (const std::string& name : {"h1", "v1", "v2"}) {
    EXPECT_EQ(physical_port(view, port(name)), port("h1")) << name;
  }
  EXPECT_EQ(physical_port(view, port("h2")), port("h2"));
  EXPECT_THAT(functions_of(view, port("h1")), ElementsAre(port("v1"), port("v2")));
  EXPECT_THAT(functions_of(view, port("h2")), ElementsAre());
}

TEST_F(VirtualPorts, OwnTheQpnsOfTheSlotsThatTheyHaveBorrowed) {
  fabric.builder.lend_slots(
      {.lender = fabric.node("h1"), .first_slot = 40, .borrower = port("v1")});  // one more
  fabric.publish();
  const TablesView view = fabric.view();
  const Lid lid = fabric.lid("h1");
  EXPECT_EQ(view.owner_of(lid), port("h1"));
  for (std::uint32_t i = 0; i < kSlotsPerLoan; ++i) {
    EXPECT_EQ(port_of_qp(view, lid, qpn_of_slot(kFirstSlot + i)), port("v1")) << i;
    EXPECT_EQ(port_of_qp(view, lid, qpn_of_slot(kFirstSlot + kSlotsPerLoan + i)), port("v2")) << i;
    EXPECT_EQ(port_of_qp(view, lid, qpn_of_slot(40 + i)), port("v1")) << i;
  }
  for (const std::uint32_t slot : {0U, 1U, 39U, 44U, kFirstSlot - 1, kFirstSlot + 8}) {
    EXPECT_EQ(port_of_qp(view, lid, qpn_of_slot(slot)), port("h1")) << slot;  // not lent
  }
  EXPECT_EQ(port_of_qp(view, lid, Qpn{1}), port("h1"));
  EXPECT_EQ(port_of_qp(view, fabric.lid("h2"), qpn_of_slot(kFirstSlot)), port("h2"));
  EXPECT_EQ(port_of_qp(view, Lid{0xBFFF}, qpn_of_slot(kFirstSlot)), kNoPort);
}

TEST_F(VirtualPorts, OwnNoQpnOnceTheSlotsAreGivenBackOrTheirLidIsAnother) {
  fabric.builder.take_back_slots(fabric.node("h1"), kFirstSlot);
  fabric.builder.set_lid(port("v2"), fabric.lid("h2"), 0);  // it has moved to h2
  fabric.publish();
  const TablesView view = fabric.view();
  for (const std::uint32_t slot : {kFirstSlot, kFirstSlot + kSlotsPerLoan}) {
    EXPECT_EQ(port_of_qp(view, fabric.lid("h1"), qpn_of_slot(slot)), port("h1")) << slot;
  }
  EXPECT_EQ(view.borrower_of(fabric.node("h1"), kFirstSlot), kNoPort);
  EXPECT_EQ(view.borrower_of(fabric.node("h1"), kFirstSlot + kSlotsPerLoan), port("v2"));
}

TEST_F(VirtualPorts, SendNothingByALevelThatTheirPortMapsToVl15) {
  const auto levels = static_cast<std::uint16_t>(1U << 3 | 1U << 15);
  fabric.builder.set_management_levels(port("h1"), levels);
  fabric.builder.set_management_levels(port("h2"), 1);
  fabric.publish();
  const TablesView view = fabric.view();
  for (const std::uint8_t sl : {std::uint8_t{3}, std::uint8_t{15}}) {
    const Path path = resolve(view, port("h1"), fabric.lid("h2"), ServiceLevel{sl});
    EXPECT_EQ(path.outcome, PathUse::ManagementLane);
    EXPECT_EQ(path.stopped_at, port("h1"));
    const MulticastTree tree =
        resolve_multicast(view, port("h1"), kBroadcastMlid, ServiceLevel{sl});
    EXPECT_EQ(tree.outcome, PathUse::ManagementLane);
  }
  EXPECT_TRUE(resolve(view, port("h1"), fabric.lid("h2"), ServiceLevel{0}).is_delivered());
  EXPECT_FALSE(resolve(view, port("h2"), fabric.lid("h1"), ServiceLevel{0}).is_delivered());
  EXPECT_TRUE(resolve(view, port("h2"), fabric.lid("h1"), ServiceLevel{3}).is_delivered());
  fabric.builder.set_management_levels(port("h1"), 0);
  fabric.publish();
  EXPECT_TRUE(resolve(fabric.view(), port("h1"), fabric.lid("h2"), ServiceLevel{3}).is_delivered());
}

TEST_F(VirtualPorts, AreFoundByNodeAmongThoseWithTheirLid) {
  const TablesView view = fabric.view();
  const Lid lid = fabric.lid("h1");
  for (const std::string& name : {"h1", "v1", "v2"}) {
    EXPECT_EQ(port_of_node(view, fabric.node(name), lid), port(name)) << name;
  }
  EXPECT_EQ(port_of_node(view, fabric.node("h2"), lid), kNoPort);
  EXPECT_EQ(port_of_node(view, fabric.node("v1"), fabric.lid("h2")), kNoPort);
}

TEST_F(VirtualPorts, AreFoundByTheirGidAlsoWhenThePhysicalPortHasIt) {
  const TablesView view = fabric.view();
  for (const std::string& name : {"h1", "v1", "v2"}) {
    EXPECT_EQ(view.owner_of(view.gids(view.port(port(name))).front()), port(name)) << name;
  }
}

TEST_F(VirtualPorts, AGidOfAnotherPortWithACableIsNoFunction) {
  const Gid foreign = fabric.builder.gids(port("h2")).front();
  const Gid own = fabric.builder.gids(port("h1")).front();
  fabric.builder.set_gids(port("h1"), std::vector{own, foreign});
  fabric.publish();
  EXPECT_THAT(functions_of(fabric.view(), port("h1")), ElementsAre());
  EXPECT_EQ(port_of_node(fabric.view(), fabric.node("h2"), fabric.lid("h1")), kNoPort);
}

}  // namespace
}  // namespace weft::fabric
