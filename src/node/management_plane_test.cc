#include "node/management_plane.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <set>
#include <vector>

#include "fabric/topology.h"
#include "mad/mad_message.h"
#include "wire/mad/mad.h"
#include "wire/mad/node_info.h"
#include "wire/mad/notice.h"
#include "wire/mad/port_info.h"
#include "wire/mad/smp.h"

namespace weft::node {
namespace {

using fabric::PortIndex;
using wire::SmpAttribute;

/// Explores a fabric by directed route, as a subnet manager does (IBTA vol 1 §14.2.2).
class Explorer {
 public:
  Explorer(ManagementPlane& plane, PortIndex at)
      : plane_(plane),
        at_(at),
        agent_(*plane.port(at).smi().register_agent(
            {.mgmt_class = wire::ManagementClass::SubnDirectedRoute, .name = "explorer"},
            nullptr)) {}

  void begin() { ask({}); }
  void explore(Instant& now) {
    begin();
    while (plane_.run(now)) {
    }
  }

  std::map<Guid, wire::NodeInfo> nodes;
  std::set<std::pair<Guid, Guid>> links;
  unsigned lost{};

 private:
  using Path = std::vector<std::uint8_t>;

  void ask(const Path& path) {
    wire::SmpDirected smp{
        .header = {.method = wire::MadMethod::Get,
                   .hop_count = static_cast<std::uint8_t>(path.size()),
                   .attribute_id = static_cast<std::uint16_t>(SmpAttribute::NodeInfo)},
        .dr_slid = kPermissiveLid,
        .dr_dlid = kPermissiveLid
    };
    for (std::size_t i = 0; i < path.size(); ++i) {
      smp.initial_path[i + 1] = std::byte{path[i]};
    }
    const auto sent = plane_.port(at_).smi().send(
        agent_, {.lid = kPermissiveLid, .qp = kQp0}, {.mad = wire::pack(smp)}, {},
        [this, path](const mad::Completion& completion) { learn(path, completion); }, Instant{});
    ASSERT_TRUE(sent) << sent.error().reason;
  }

  void learn(const Path& path, const mad::Completion& completion) {
    if (completion.status != mad::TransactionStatus::Answered) {
      ++lost;
      return;
    }
    const auto info = wire::unpack<wire::NodeInfo>(
        std::span{completion.answer->mad}.subspan<wire::kSmpDataAt, 40>());
    if (!path.empty()) {
      links.emplace(guid_at_[Path(path.begin(), path.end() - 1)], info.node_guid);
    }
    guid_at_[path] = info.node_guid;
    if (!nodes.emplace(info.node_guid, info).second) {
      return;
    }
    const bool is_switch = info.node_type == wire::NodeType::Switch;
    if (!is_switch && !path.empty()) {
      return;
    }
    const std::uint8_t ports = is_switch ? info.port_count : std::uint8_t{1};
    for (std::uint8_t port = 1; port <= ports; ++port) {
      Path further = path;
      further.push_back(is_switch ? port : info.local_port.value());
      ask(further);
    }
  }

  ManagementPlane& plane_;
  PortIndex at_;
  mad::AgentId agent_;
  std::map<Path, Guid> guid_at_;
};

TEST(ManagementPlane, IsDiscoveredByDirectedRouteFromAnyHost) {
  const auto topology = fabric::generate_fat_tree(4, 2);
  for (const std::uint32_t host : {0U, 7U}) {
    fabric::TablesBuilder tables{*topology};
    ManagementPlane plane{tables};
    Explorer explorer{plane, tables.nodes()[host].first_port};
    Instant now;
    explorer.explore(now);
    EXPECT_EQ(explorer.nodes.size(), tables.nodes().size());
    EXPECT_EQ(explorer.lost, 0U);
    std::size_t cables = 0;
    for (const fabric::PortRecord& port : tables.ports()) {
      cables += port.peer != fabric::kNoPort ? 1 : 0;
    }
    EXPECT_GE(explorer.links.size(), cables / 2);
  }
}

TEST(ManagementPlane, RetriesAcrossALinkThatIsDownAndTellsWhoAsked) {  // T-MI-1
  const auto topology = fabric::generate_star(2);
  fabric::TablesBuilder tables{*topology};
  ManagementPlane plane{tables};
  Instant now;
  ASSERT_TRUE(plane.set_link(tables.nodes()[1].first_port, false, now));
  Explorer explorer{plane, tables.nodes()[0].first_port};
  explorer.explore(now);
  EXPECT_EQ(explorer.nodes.size(), 2U);
  for (int steps = 0; steps < 100 && plane.deadline() != Instant::never(); ++steps) {
    now = std::max(now, plane.deadline());
    plane.run(now);
  }
  EXPECT_EQ(explorer.lost, 1U);
  EXPECT_EQ(plane.network_counters().link_down, 4U);  // once, and three retries
}

/// Traps to an agent that represses each.
class TrapListener final : public mad::MadHandler {
 public:
  const mad::MadMessage* handle(mad::MadRequest& request) override {
    const auto notice =
        wire::unpack<wire::Notice>(std::span{request.message.mad}.subspan<wire::kSmpDataAt, 64>());
    traps.push_back(notice.trap_number);
    wire::MadHeader header = request.message.header();
    header.method = wire::MadMethod::TrapRepress;
    request.message.set_header(header);
    return &request.message;
  }
  std::vector<std::uint16_t> traps;
};

TEST(ManagementPlane, BringsTrapsToTheSubnetManagersPort) {
  const auto topology = fabric::generate_star(2);
  fabric::TablesBuilder tables{*topology};
  ManagementPlane plane{tables};
  const PortIndex h1 = tables.nodes()[0].first_port;
  const PortIndex s1 = tables.nodes()[2].first_port;
  for (const auto& [port, lid] : {
           std::pair{h1, Lid{1}},
           std::pair{s1, Lid{3}}
  }) {
    tables.set_lid(port, lid, 0);
    tables.set_subnet_manager(port, Lid{1}, {});
  }
  tables.set_forwarding(tables.port(s1).node, Lid{1}, PortNumber{1});
  tables.set_forwarding(tables.port(s1).node, Lid{3}, PortNumber{0});
  TrapListener listener;
  ASSERT_TRUE(
      plane.port(h1).smi().register_agent({.mgmt_class = wire::ManagementClass::SubnLidRouted,
                                           .methods = mad::methods({wire::MadMethod::Trap}),
                                           .name = "sm"},
                                          &listener));
  Instant now;
  ASSERT_TRUE(plane.set_link(tables.nodes()[1].first_port, false, now));
  EXPECT_TRUE(plane.tables_changed());
  while (plane.run(now)) {
  }
  EXPECT_EQ(listener.traps, (std::vector<std::uint16_t>{128}));
  EXPECT_TRUE(plane.agents().switch_info(tables.port(s1).node).port_state_change);
  now = now + Duration::seconds(100);
  plane.run(now);
  EXPECT_EQ(listener.traps.size(), 1U);  // it was repressed
}

TEST(ManagementPlane, RefusesWhatAPortCannot) {
  auto topology = fabric::generate_star(2);
  topology->switches[0].port_count = 3;
  fabric::TablesBuilder tables{*topology};
  ManagementPlane plane{tables};
  const PortIndex h1 = tables.nodes()[0].first_port;
  const auto active = plane.configure(h1, {.state = wire::LinkState::Active}, Instant{});
  ASSERT_FALSE(active);
  EXPECT_NE(active.error().reason.find("Armed"), std::string::npos) << active.error().reason;
  EXPECT_FALSE(plane.configure(h1, {.width_enabled = 8}, Instant{}));
  EXPECT_FALSE(plane.configure(tables.nodes()[2].first_port, {}, Instant{}));
  ASSERT_TRUE(plane.configure(h1, {.physical = wire::PhysicalState::Disabled}, Instant{}));
  EXPECT_EQ(tables.port(h1).state, fabric::PortState::Down);
  ASSERT_TRUE(plane.configure(h1, {.physical = wire::PhysicalState::Polling, .width_enabled = 1},
                              Instant{}));
  EXPECT_EQ(tables.port(h1).state, fabric::PortState::Initialize);
  EXPECT_EQ(tables.port(h1).active_width, 1);
  const PortIndex without_cable{tables.nodes()[2].first_port.value() + 3};
  EXPECT_FALSE(plane.set_link(without_cable, false, Instant{}));
}

/// A flood from one port must not delay another port.
TEST(ManagementPlane, LetsNobodyWaitForAFlood) {
  const auto topology = fabric::generate_star(3);
  fabric::TablesBuilder tables{*topology};
  ManagementPlane plane{tables};
  const PortIndex h1 = tables.nodes()[0].first_port;
  const PortIndex h2 = tables.nodes()[1].first_port;
  const auto agent = plane.port(h1).smi().register_agent(
      {.mgmt_class = wire::ManagementClass::SubnDirectedRoute, .name = "flood"}, nullptr);
  wire::SmpDirected smp{
      .header = {.method = wire::MadMethod::Get, .attribute_id = 0x11},
      .dr_slid = kPermissiveLid,
      .dr_dlid = kPermissiveLid
  };
  for (int i = 0; i < 4000; ++i) {
    static_cast<void>(plane.port(h1).smi().post(*agent, {.lid = kPermissiveLid, .qp = kQp0},
                                                {.mad = wire::pack(smp)}, Instant{}));
  }
  Explorer explorer{plane, h2};
  explorer.begin();
  while (explorer.nodes.size() < 4 && plane.run(Instant{})) {
  }
  EXPECT_EQ(explorer.nodes.size(), 4U);
  EXPECT_LT(plane.network_counters().carried, 4'000U);  // each of the flood would be two
}

}  // namespace
}  // namespace weft::node
