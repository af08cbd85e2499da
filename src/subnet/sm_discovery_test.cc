#include "subnet/sm_discovery.h"

#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

namespace weft::subnet {
namespace {

/// Nodes that answer along the routes that lead to them, as SMAs do, or with configured lies.
class Answers {
 public:
  struct Node {
    wire::NodeInfo info;
    std::map<unsigned, std::pair<std::size_t, unsigned>> cables;  // port: node and its port
    bool is_silent{};
  };
  std::vector<Node> nodes;
  std::size_t asked{};

  std::size_t add(wire::NodeType type, std::uint64_t guid, std::uint8_t ports) {
    Node node;
    node.info.node_type = type;
    node.info.node_guid = Guid{guid};
    node.info.port_guid = type == wire::NodeType::Switch ? Guid{guid} : Guid{guid + 1};
    node.info.port_count = ports;
    node.info.partition_cap = 32;
    nodes.push_back(node);
    return nodes.size() - 1;
  }
  void join(std::size_t a, unsigned port_a, std::size_t b, unsigned port_b) {
    nodes[a].cables[port_a] = {b, port_b};
    nodes[b].cables[port_b] = {a, port_a};
  }

  Discovery discover(const Subnet* before = nullptr) {
    Discovery discovery{kDefaultGidPrefix, before};
    for (asked = 0; asked < 10'000; ++asked) {
      const auto request = discovery.next();
      if (!request) {
        return discovery;
      }
      DirectedRoute route = discovery.route_of(*request);
      if (request->egress != PortNumber{}) {
        route.push_back(request->egress);
      }
      discovery.take(*request, answer(route, *request));
    }
    ADD_FAILURE() << "it never ends";
    return discovery;
  }

 private:
  [[nodiscard]] SmpAnswer answer(const DirectedRoute& route, const SmpRequest& request) const {
    std::size_t at = 0;
    unsigned ingress = 1;
    for (const PortNumber port : route) {
      const auto cable = nodes[at].cables.find(port.value());
      if (cable == nodes[at].cables.end()) {
        return {};
      }
      std::tie(at, ingress) = cable->second;
    }
    const Node& node = nodes[at];
    if (node.is_silent) {
      return {};
    }
    SmpAnswer answer{.is_answered = true};
    wire::NodeInfo info = node.info;
    info.local_port = PortNumber{static_cast<std::uint8_t>(ingress)};
    wire::PortInfo port;
    port.guid_cap = 8;
    port.port_state =
        node.cables.contains(request.modifier) ? wire::LinkState::Init : wire::LinkState::Down;
    wire::PKeyTable pkeys;
    pkeys.pkeys[0] = kDefaultPKey;
    switch (request.attribute) {
      case wire::SmpAttribute::NodeInfo:
        answer.data = smp_data(info);
        break;
      case wire::SmpAttribute::PortInfo:
        answer.data = smp_data(port);
        break;
      case wire::SmpAttribute::PKeyTable:
        answer.data = smp_data(pkeys);
        break;
      case wire::SmpAttribute::SwitchInfo:
        answer.data = smp_data(wire::SwitchInfo{.linear_fdb_cap = 1024});
        break;
      default:
        break;
    }
    return answer;
  }
};

/// A host at a switch, with another host behind it.
Answers small() {
  Answers fabric;
  const std::size_t own = fabric.add(wire::NodeType::ChannelAdapter, 0x100, 1);
  const std::size_t at = fabric.add(wire::NodeType::Switch, 0x200, 6);
  const std::size_t other = fabric.add(wire::NodeType::ChannelAdapter, 0x300, 2);
  fabric.join(own, 1, at, 3);
  fabric.join(other, 2, at, 4);
  return fabric;
}

TEST(Discovery, FindsNodesCablesAndTheWayToThem) {
  Answers fabric = small();
  Discovery discovery = fabric.discover();
  const Subnet& subnet = discovery.subnet();
  ASSERT_EQ(subnet.nodes().size(), 3U);
  const PortId own = *discovery.own_port();
  EXPECT_EQ(subnet.port(own).guid, Guid{0x101});
  const PortId other = *subnet.find_port(Guid{0x301});
  EXPECT_EQ(other.number, PortNumber{2});
  EXPECT_EQ(subnet.port(other).peer, (PortId{*subnet.find_node(Guid{0x200}), PortNumber{4}}));
  EXPECT_EQ(subnet.route_to(other), (DirectedRoute{PortNumber{1}, PortNumber{4}}));
  EXPECT_EQ(subnet.port(other).pkeys.front(), kDefaultPKey);
  EXPECT_EQ(discovery.problems().unanswered, 0U);
}

TEST(Discovery, GoesThroughSwitchesInCirclesOnce) {
  Answers fabric;
  const std::size_t own = fabric.add(wire::NodeType::ChannelAdapter, 0x100, 1);
  std::vector<std::size_t> ring;
  for (std::uint64_t i = 0; i < 5; ++i) {
    ring.push_back(fabric.add(wire::NodeType::Switch, 0x1000 * (i + 1), 4));
  }
  for (std::size_t i = 0; i < 5; ++i) {
    fabric.join(ring[i], 1, ring[(i + 1) % 5], 2);
  }
  fabric.join(own, 1, ring[0], 3);
  fabric.join(ring[2], 3, ring[2], 4);  // and a cable from a switch to itself
  Discovery discovery = fabric.discover();
  EXPECT_EQ(discovery.subnet().nodes().size(), 6U);
  EXPECT_EQ(discovery.problems().duplicate_guids, 0U);
  const NodeId looped = *discovery.subnet().find_node(Guid{0x3000});
  EXPECT_EQ(discovery.subnet().port({looped, PortNumber{3}}).peer, (PortId{looped, PortNumber{4}}));
}

TEST(Discovery, TwoNodesOfOneNameAreNotTakenForOne) {
  Answers fabric = small();
  const std::size_t twin = fabric.add(wire::NodeType::ChannelAdapter, 0x300, 2);
  fabric.join(twin, 2, 1, 5);
  Discovery discovery = fabric.discover();
  EXPECT_EQ(discovery.subnet().nodes().size(), 3U);
  EXPECT_EQ(discovery.problems().duplicate_guids, 1U);
  EXPECT_EQ(discovery.subnet().port(*discovery.subnet().find_port(Guid{0x301})).peer.number,
            PortNumber{4});
}

TEST(Discovery, NodesThatDoNotAnswerOrTalkNonsenseAreLeftOut) {
  Answers fabric = small();
  const std::size_t silent = fabric.add(wire::NodeType::ChannelAdapter, 0x400, 1);
  fabric.nodes[silent].is_silent = true;
  fabric.join(silent, 1, 1, 5);
  const std::size_t liar = fabric.add(wire::NodeType::ChannelAdapter, 0x500, 1);
  fabric.join(liar, 1, 1, 6);
  fabric.nodes[liar].info.port_count = 0;
  Discovery discovery = fabric.discover();
  EXPECT_EQ(discovery.subnet().nodes().size(), 3U);
  EXPECT_EQ(discovery.problems().unanswered, 1U);
  EXPECT_EQ(discovery.problems().inconsistent, 1U);
}

TEST(Discovery, WithoutOwnAgentThereIsNothing) {
  Answers fabric = small();
  fabric.nodes[0].is_silent = true;
  Discovery discovery = fabric.discover();
  EXPECT_FALSE(discovery.own_port());
  EXPECT_EQ(discovery.subnet().nodes().size(), 0U);
}

}  // namespace
}  // namespace weft::subnet
