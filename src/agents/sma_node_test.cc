// The SMA's attributes of a whole node (IBTA vol 1 §14.2.5).

#include "agents/fabric_agents.h"

#include <gtest/gtest.h>

#include <string>

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

}  // namespace
}  // namespace weft::agents
