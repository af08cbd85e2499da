#include "subnet/sm_lids.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weft::subnet {
namespace {

using ::testing::HasSubstr;

/// Hosts with the LIDs in their PortInfo, unordered by GUID; then one switch.
class Ports {
 public:
  Subnet subnet;

  PortId add(std::uint64_t guid, wire::NodeType type, Lid lid = {}, std::uint8_t lmc = 0) {
    wire::NodeInfo info;
    info.node_type = type;
    info.node_guid = Guid{guid << 8};
    info.port_guid = Guid{guid};
    info.port_count = 1;
    info.local_port = PortNumber{1};
    const NodeId node = subnet.add_node(info);
    const PortId port{
        node, PortNumber{type == wire::NodeType::Switch ? std::uint8_t{0} : std::uint8_t{1}}};
    subnet.port(port).info.local_port = PortNumber{1};
    subnet.port(port).info.lid = lid;
    subnet.port(port).info.lmc = lmc;
    return port;
  }
  PortId host(std::uint64_t guid, Lid lid = {}, std::uint8_t lmc = 0) {
    return add(guid, wire::NodeType::ChannelAdapter, lid, lmc);
  }
  [[nodiscard]] Lid lid(PortId port) const { return subnet.port(port).info.lid; }
};

TEST(Lids, HostsComeFirstInTheOrderOfTheirGuids) {
  Ports ports;
  const PortId sw = ports.add(1, wire::NodeType::Switch);
  const PortId late = ports.host(30);
  const PortId early = ports.host(20);
  LidMemory memory;
  ASSERT_TRUE(assign_lids(ports.subnet, {}, memory));
  EXPECT_EQ(ports.lid(early), Lid{1});
  EXPECT_EQ(ports.lid(late), Lid{2});
  EXPECT_EQ(ports.lid(sw), Lid{3});
  EXPECT_EQ(ports.subnet.find_lid(Lid{2}), late);
  EXPECT_EQ(memory.at(Guid{30}), Lid{2});
}

TEST(Lids, APortKeepsWhatItHasAndMemoryDecidesBetweenTwo) {
  Ports ports;
  const PortId intruder = ports.host(10, Lid{5});
  const PortId owner = ports.host(20, Lid{5});
  const PortId alone = ports.host(30, Lid{7});
  LidMemory memory{
      {Guid{20}, Lid{5}}
  };
  ASSERT_TRUE(assign_lids(ports.subnet, {}, memory));
  EXPECT_EQ(ports.lid(owner), Lid{5});
  EXPECT_EQ(ports.lid(alone), Lid{7});
  EXPECT_EQ(ports.lid(intruder), Lid{1});
}

TEST(Lids, APortThatForgotGetsItsOldLidAndTheAbsentKeepTheirs) {
  Ports ports;
  const PortId back = ports.host(10);
  const PortId fresh = ports.host(20);
  LidMemory memory{
      {Guid{10}, Lid{9}},
      {Guid{99}, Lid{1}}
  };  // 99 is away
  ASSERT_TRUE(assign_lids(ports.subnet, {}, memory));
  EXPECT_EQ(ports.lid(back), Lid{9});
  EXPECT_EQ(ports.lid(fresh), Lid{2});
}

TEST(Lids, RangesAreAlignedAndWhatIsNotIsGivenAnew) {
  Ports ports;
  const PortId crooked = ports.host(10, Lid{6}, 2);
  const PortId good = ports.host(20, Lid{8}, 2);
  const PortId other_lmc = ports.host(30, Lid{16}, 0);
  const PortId own = ports.host(40);
  const PortId sw = ports.add(50, wire::NodeType::Switch);
  SubnetManagerOptions options;
  options.lmc = 2;
  options.lmc_of_port[Guid{40}] = 0;
  LidMemory memory;
  ASSERT_TRUE(assign_lids(ports.subnet, options, memory));
  EXPECT_EQ(ports.lid(good), Lid{8});
  EXPECT_EQ(ports.lid(crooked), Lid{4});
  EXPECT_EQ(ports.lid(other_lmc), Lid{12});
  EXPECT_EQ(ports.lid(own), Lid{1});
  EXPECT_EQ(ports.subnet.port(sw).info.lmc, 0);
  EXPECT_EQ(ports.lid(sw), Lid{2});
}

TEST(Lids, InvalidLidsAreReplaced) {
  Ports ports;
  const PortId multicast = ports.host(10, Lid{0xC001});
  const PortId permissive = ports.host(20, Lid{0xFFFF});
  LidMemory memory;
  ASSERT_TRUE(assign_lids(ports.subnet, {}, memory));
  EXPECT_EQ(ports.lid(multicast), Lid{1});
  EXPECT_EQ(ports.lid(permissive), Lid{2});
}

TEST(Lids, SaysWhenThereAreTooFew) {
  Ports ports;
  for (std::uint64_t i = 1; i <= 400; ++i) {
    ports.host(i);
  }
  SubnetManagerOptions options;
  options.lmc = 7;  // 128 each: 383 fit
  LidMemory memory;
  const auto assigned = assign_lids(ports.subnet, options, memory);
  ASSERT_FALSE(assigned);
  EXPECT_THAT(assigned.error().reason, HasSubstr("17 ports have no LID"));
}

}  // namespace
}  // namespace weft::subnet
