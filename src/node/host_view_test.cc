#include "node/host_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <string_view>

#include "fabric/topology.h"
#include "host_view/sysfs.h"
#include "node/fabric.h"
#include "node/testing/settle.h"

namespace weft::node {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::SizeIs;

using host_view::CharacterDeviceView;
using host_view::HostView;

/// Two hosts with two HCAs each, of one and of two ports.
class ViewOfAHost : public ::testing::Test {
 protected:
  ViewOfAHost() {
    constexpr std::string_view kTopology = R"([[host]]
name = "h1"
[[host.hca]]
name = "weft0"
ports = 2
[[host.hca]]
name = "weft1"
[[host]]
name = "h2"
[[switch]]
name = "s1"
ports = 8
[[link]]
a = "h1:1"
b = "s1:1"
[[link]]
a = "h1/weft1:1"
b = "s1:2"
[[link]]
a = "h2:1"
b = "s1:3"
)";
    auto topology = fabric::read_topology(kTopology);
    EXPECT_TRUE(topology) << topology.error().reason;
    auto made = Fabric::create(*topology, Instant{}, {.counters = &counters_});
    EXPECT_TRUE(made) << made.error().reason;
    fabric_ = std::move(*made);
    testing::settle(*fabric_, Instant{});
  }

  [[nodiscard]] HostView view(std::string_view name, WithCounters counters = WithCounters::No) {
    return view_host({.tables = fabric_->builder(),
                      .agents = fabric_->management().agents(),
                      .counters = counters_,
                      .shared_ports = fabric_->management().shared_ports()},
                     *fabric_->builder().find_node(name), Instant{}, counters);
  }
  [[nodiscard]] fabric::PortIndex port(std::string_view name) {
    return fabric_->find_ports(name)->front();
  }

  fabric::PlainCounters counters_;
  std::unique_ptr<Fabric> fabric_;
};

TEST_F(ViewOfAHost, HasItsDevicesAndPortsAsTheSubnetManagerLeftThem) {
  const HostView host = view("h1");
  ASSERT_THAT(host.devices, SizeIs(2));
  EXPECT_EQ(host.devices[0].name, "weft0");
  EXPECT_EQ(host.devices[1].index, 1U);
  ASSERT_THAT(host.devices[0].ports, SizeIs(2));
  const host_view::PortView& up = host.devices[0].ports[0];
  const fabric::PortRecord& record = fabric_->builder().port(port("h1:1"));
  EXPECT_EQ(up.state, 4) << "Active";
  EXPECT_EQ(up.physical_state, 5) << "LinkUp";
  EXPECT_NE(up.lid, Lid{});
  EXPECT_EQ(up.lid, record.lid);
  EXPECT_EQ(up.sm_lid, record.sm_lid);
  EXPECT_EQ(up.gids.front(), (Gid{up.subnet_prefix, record.guid}));
  EXPECT_THAT(up.gids, SizeIs(kGidTableLength));
  EXPECT_EQ(up.pkeys.front(), PKey{0xFFFF});
  EXPECT_EQ(host.devices[0].ports[1].state, 1) << "no cable: Down";
  EXPECT_EQ(host.devices[0].node_guid, fabric_->builder().hcas()[0].guid);
  EXPECT_EQ(host.devices[0].system_image_guid, host.devices[1].system_image_guid);
}

TEST_F(ViewOfAHost, FollowsWhatChanges) {
  fabric_->management().agents().set_plugged(port("h1:1"), false, Instant{});
  EXPECT_EQ(view("h1").devices[0].ports[0].state, 1);
  ASSERT_TRUE(fabric_->management().agents().set_node_description(port("h1:1"), "a rack's third",
                                                                  Instant{}));
  EXPECT_EQ(view("h1").devices[0].description, "a rack's third");
}

TEST_F(ViewOfAHost, CountersAreThoseOfThePma) {
  counters_.own(port("h1/weft1:1")).xmit_data = 77;
  counters_.own(port("h1/weft1:1")).xmit_wait = 5'000;
  counters_.own_details()[port("h1/weft1:1")].of(fabric::PathEnd::HeadOfQueueLimit) = 3;
  EXPECT_TRUE(view("h1").devices[1].ports[0].counters.empty()) << "not asked for";
  const HostView host = view("h1", WithCounters::Yes);
  const auto find = [](const host_view::PortView::Counters& in, std::string_view name) {
    const auto at = std::ranges::find(in, name, &host_view::PortView::Counters::value_type::first);
    return at == in.end() ? ~std::uint64_t{} : at->second;
  };
  const host_view::PortView& shown = host.devices[1].ports[0];
  EXPECT_EQ(find(shown.counters, "port_xmit_data"), 77U);
  EXPECT_EQ(find(shown.counters, "port_xmit_wait"), 5U) << "ticks of the PMA";
  EXPECT_EQ(find(shown.hardware_counters, "port_sw_hoq_lifetime_discards"), 3U);
  EXPECT_EQ(find(host.devices[0].ports[0].counters, "port_xmit_data"),
            counters_.own(port("h1:1")).xmit_data);
}

TEST_F(ViewOfAHost, CharacterDevicesHaveLinuxsNumbers) {
  const HostView host = view("h1");
  const auto is = [](std::string_view type, std::string_view name, std::uint32_t major,
                     std::uint32_t minor) {
    return AllOf(Field(&CharacterDeviceView::type, type), Field(&CharacterDeviceView::name, name),
                 Field(&CharacterDeviceView::number, std::uint64_t{makedev(major, minor)}));
  };
  EXPECT_THAT(host.character_devices,
              ElementsAre(is("uverbs", "uverbs0", 231, 192), is("umad", "umad0", 231, 0),
                          is("issm", "issm0", 231, 64), is("umad", "umad1", 231, 1),
                          is("issm", "issm1", 231, 65), is("uverbs", "uverbs1", 231, 193),
                          is("umad", "umad2", 231, 2), is("issm", "issm2", 231, 66),
                          is("rdma_cm", "rdma_cm", 10, 122)));
}

TEST_F(ViewOfAHost, OfASwitchOrARemovedHostThereIsNone) {
  EXPECT_TRUE(view("s1").devices.empty());
  EXPECT_TRUE(view("s1").character_devices.empty());
}

TEST_F(ViewOfAHost, HasTheVirtualFunctionsOfItsDevices) {
  for (const char* text : {"add vf v1 of=h1/weft1:1", "add vf v2 of=h1/weft1:1",
                           "set vf v2 policy=down node_guid=0x1122334455667788"}) {
    ASSERT_TRUE(fabric_->change_node(*read_node_change(text), Instant{})) << text;
  }
  const HostView host = view("h1");
  ASSERT_TRUE(host.devices[0].sriov && host.devices[1].sriov);
  EXPECT_EQ(host.devices[0].sriov->total, 247U);
  EXPECT_TRUE(host.devices[0].sriov->functions.empty());
  ASSERT_THAT(host.devices[1].sriov->functions, SizeIs(2));
  const host_view::FunctionView& second = host.devices[1].sriov->functions[1];
  EXPECT_EQ(second.node_guid, Guid{0x1122'3344'5566'7788});
  const fabric::TablesBuilder& tables = fabric_->builder();
  EXPECT_EQ(second.port_guid, tables.port(tables.node(*tables.find_node("v2")).first_port).guid);
  EXPECT_EQ(second.policy, verbs::PortPolicy::Down);
  EXPECT_EQ(view("v2").devices[0].node_guid, second.node_guid);
  EXPECT_FALSE(view("v2").devices[0].sriov) << "a function has none of its own";
}

}  // namespace
}  // namespace weft::node
