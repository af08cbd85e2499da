// The SMA's attributes of a whole node (IBTA vol 1 §14.2.5).

#include "agents/fabric_agents.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "agents/testing/managed_fabric.h"

namespace weft::agents {
namespace {

using testing::ManagedFabric;
using testing::star;
using wire::PortInfo;
using wire::SmpAttribute;

[[nodiscard]] std::string text_of(const wire::NodeDescription& description) {
  std::string text;
  for (const std::byte octet : description.text) {
    if (octet != std::byte{}) {
      text.push_back(static_cast<char>(octet));
    }
  }
  return text;
}

TEST(SmaNode, SaysWhatANodeIsAndWhereItWasAsked) {
  ManagedFabric fabric{star()};
  const auto h1 = fabric.port("h1", 1);
  const auto own = fabric.ask(h1, {.attribute = SmpAttribute::NodeInfo}, {});
  ASSERT_TRUE(own);
  const auto hca = own->data<wire::NodeInfo>();
  EXPECT_EQ(hca.node_type, wire::NodeType::ChannelAdapter);
  EXPECT_EQ(hca.port_count, 1);
  EXPECT_EQ(hca.port_guid, fabric.tables.port(h1).guid);
  EXPECT_EQ(hca.vendor_id, kVendorId);

  const auto beyond = fabric.ask(h1, {.attribute = SmpAttribute::NodeInfo}, {1});
  ASSERT_TRUE(beyond);
  const auto s1 = beyond->data<wire::NodeInfo>();
  EXPECT_EQ(s1.node_type, wire::NodeType::Switch);
  EXPECT_EQ(s1.port_count, fabric.tables.node(fabric.node("s1")).port_count - 1);
  EXPECT_EQ(s1.local_port, PortNumber{1});
  EXPECT_EQ(s1.node_guid, s1.port_guid);

  const auto name = fabric.ask(h1, {.attribute = SmpAttribute::NodeDescription}, {1, 2});
  ASSERT_TRUE(name);
  EXPECT_EQ(text_of(name->data<wire::NodeDescription>()), "h2 weft0");
}

TEST(SmaNode, SaysWhatItDoesNotSupport) {
  ManagedFabric fabric{star()};
  const auto h1 = fabric.port("h1", 1);
  EXPECT_EQ(fabric.ask(h1, {.attribute = SmpAttribute::RandomForwardingTable}, {1})->status(),
            wire::kMadStatusMethodAttributeUnsupported);
  EXPECT_EQ(fabric.ask(h1, {.attribute = SmpAttribute::SwitchInfo}, {})->status(),
            wire::kMadStatusMethodAttributeUnsupported);
  EXPECT_EQ(fabric.set(h1, {.attribute = SmpAttribute::NodeInfo}, {1}, wire::NodeInfo{})->status(),
            wire::kMadStatusMethodAttributeUnsupported);
  EXPECT_EQ(fabric.ask(h1, {.attribute = SmpAttribute::SmInfo}, {1, 2})->status(),
            wire::kMadStatusMethodAttributeUnsupported);
  EXPECT_EQ(fabric.ask(h1, {.attribute = SmpAttribute::PortInfo, .modifier = 40}, {1})->status(),
            wire::kMadStatusInvalidField);
  mad::MadBytes wrong = ManagedFabric::directed({.attribute = SmpAttribute::NodeInfo}, {1});
  wrong[2] = std::byte{9};  // ClassVersion
  EXPECT_EQ(fabric.send(h1, wrong)->status(), wire::kMadStatusBadVersion);
}

TEST(SmaNode, LightsTheLedAndTakesADescription) {
  ManagedFabric fabric{star()};
  const auto h1 = fabric.port("h1", 1);
  ASSERT_TRUE(fabric.set(h1, {.attribute = SmpAttribute::LedInfo}, {1},
                         wire::NodeDescription{.text = {std::byte{0x80}}}));
  EXPECT_TRUE(fabric.agents.port_agent(fabric.port("s1", 0)).flags.has(PortAgentFlag::Led));
  ASSERT_TRUE(fabric.set(h1, {.attribute = SmpAttribute::NodeDescription}, {1, 2},
                         wire::NodeDescription{.text = {std::byte{'x'}}}));
  EXPECT_EQ(text_of(fabric.agents.node_description(fabric.port("h2", 1))), "x");
  EXPECT_EQ(text_of(fabric.agents.node_description(h1)), "h1 weft0");
}

/// What the kernel of its host sets of h2, and traps 144 and 145 of it (IBTA vol 1 §14.2.5.1).
class SmaOfAHost : public ::testing::Test {
 protected:
  SmaOfAHost() { fabric.manage_star(); }
  /// Traps since the last call, in order.
  [[nodiscard]] std::vector<std::uint16_t> traps() {
    fabric.run();
    std::vector<std::uint16_t> numbers;
    for (const testing::Delivered& each : fabric.delivered) {
      if (each.at == h1 && each.header().method == wire::MadMethod::Trap) {
        numbers.push_back(each.data<wire::Notice>().trap_number);
      }
    }
    fabric.delivered.clear();
    return numbers;
  }

  ManagedFabric fabric{star()};
  testing::PortIndex h1 = fabric.port("h1", 1);
  testing::PortIndex h2 = fabric.port("h2", 1);
};

TEST_F(SmaOfAHost, TellsTheSubnetManagerOfEachChangeOnce) {
  ASSERT_TRUE(fabric.agents.set_node_description(h2, "storage 7", fabric.now));
  EXPECT_EQ(traps(), std::vector<std::uint16_t>{144});
  ASSERT_TRUE(fabric.agents.set_node_description(h2, "storage 7", fabric.now));
  EXPECT_TRUE(traps().empty());
  EXPECT_EQ(text_of(fabric.agents.node_description(h2)), "storage 7");

  const wire::PortCapabilities management{wire::PortCapability::IsDeviceManagementSupported};
  const wire::PortCapabilities before = fabric.agents.port_info(h2).capability_mask;
  EXPECT_FALSE(before.has(wire::PortCapability::IsDeviceManagementSupported));
  fabric.now = fabric.now + Duration::seconds(10);  // beyond the least time between two such traps
  fabric.agents.change_capabilities(h2, management, {}, fabric.now);
  fabric.agents.change_capabilities(h2, management, {}, fabric.now);
  EXPECT_EQ(traps(), std::vector<std::uint16_t>{144});
  EXPECT_EQ(fabric.agents.port_info(h2).capability_mask, before | management);
  fabric.agents.change_capabilities(h2, {}, management, fabric.now);
  EXPECT_EQ(fabric.agents.port_info(h2).capability_mask, before);
}

TEST_F(SmaOfAHost, ShowsTheSystemImageGuidThatWasSetAndTellsTheSubnetManager) {
  const auto image = [&] {
    return fabric.ask(h1, {.attribute = SmpAttribute::NodeInfo}, {1, 2})
        ->data<wire::NodeInfo>()
        .system_image_guid;
  };
  const Guid before = image();
  fabric.agents.set_system_image_guid(h2, before, fabric.now);
  EXPECT_TRUE(traps().empty());
  fabric.agents.set_system_image_guid(h2, Guid{0x5EEE}, fabric.now);
  EXPECT_EQ(traps(), std::vector<std::uint16_t>{145});
  EXPECT_EQ(image(), Guid{0x5EEE});
  EXPECT_EQ(fabric.agents.node_info(h1).system_image_guid,
            fabric.tables.hcas()[fabric.tables.port(h1).hca.value()].system_image_guid);
}

}  // namespace
}  // namespace weft::agents
