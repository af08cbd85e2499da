// The subnet manager against the whole management plane: it brings fabrics up through MADs alone
// (docs/ARCHITECTURE.md, decision 12), and the tables are checked by the fabric's own
// walk.

#include "subnet/subnet_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "fabric/topology.h"
#include "node/testing/managed_fabric.h"
#include "verbs/mtu.h"

namespace weft::node {
namespace {

using subnet::RoutingEngine;
using subnet::SubnetManager;
using subnet::SubnetManagerOptions;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::ManagedFabric;
using ::testing::SizeIs;

TEST(SubnetManager, BringsUpEveryKindOfFabric) {
  for (const char* description : {"pair", "star:5", "fat-tree:4", "fat-tree:4:3", "torus:4x4",
                                  "torus:3x3x3:2", "dragonfly:4:2:2"}) {
    SCOPED_TRACE(description);
    ManagedFabric fabric{*fabric::generate(description)};
    SubnetManager& manager = fabric.add_manager("h1");
    fabric.settle();
    EXPECT_TRUE(manager.is_settled());
    EXPECT_EQ(manager.state(), wire::SmState::Master);
    EXPECT_EQ(manager.counters().sweeps, 1U);
    EXPECT_THAT(fabric.unreachable(), IsEmpty());
    EXPECT_EQ(fabric.builder.port(fabric.port("h1", 1)).lid, Lid{1});
    EXPECT_EQ(fabric.builder.port(fabric.port("h2", 1)).lid, Lid{2});
    EXPECT_EQ(fabric.builder.port(fabric.port("h2", 1)).sm_lid, Lid{1});
    for (const fabric::PortRecord& port : fabric.builder.ports()) {
      EXPECT_EQ(
          port.state == fabric::PortState::Active,
          port.peer != fabric::kNoPort || (port.is_switch_port() && port.number == PortNumber{}));
    }
  }
}

TEST(SubnetManager, RoutesByTheEngineThatIsAskedFor) {
  for (const RoutingEngine engine : {RoutingEngine::MinHop, RoutingEngine::UpDown,
                                     RoutingEngine::FatTree, RoutingEngine::DeadlockFree}) {
    for (const char* description : {"fat-tree:4", "torus:4x4"}) {
      SCOPED_TRACE(std::string{name_of(engine)} + " on " + description);
      ManagedFabric fabric{*fabric::generate(description)};
      SubnetManagerOptions options;
      options.engines = {engine};
      SubnetManager& manager = fabric.add_manager("h1", options);
      fabric.settle();
      EXPECT_TRUE(manager.is_settled());
      EXPECT_THAT(fabric.unreachable(), IsEmpty());
      const bool fits =
          engine != RoutingEngine::FatTree || std::string{description} == "fat-tree:4";
      EXPECT_EQ(manager.engine(), fits ? engine : RoutingEngine::UpDown);
      EXPECT_EQ(manager.warning().empty(), fits);
    }
  }
}

TEST(SubnetManager, LidsOfOnePortAreARangeThatEverybodyReaches) {
  ManagedFabric fabric{*fabric::generate("fat-tree:4")};
  SubnetManagerOptions options;
  options.lmc = 2;
  fabric.add_manager("h1", options);
  fabric.settle();
  EXPECT_THAT(fabric.unreachable(), IsEmpty());
  EXPECT_EQ(fabric.builder.port(fabric.port("h1", 1)).lid, Lid{4});
  EXPECT_EQ(fabric.builder.port(fabric.port("h1", 1)).lmc, 2);
  EXPECT_EQ(fabric.builder.port(fabric.port("h2", 1)).lid, Lid{8});
}

TEST(SubnetManager, WritesNothingWhenNothingChanged) {
  ManagedFabric fabric{*fabric::generate("fat-tree:4")};
  SubnetManager& manager = fabric.add_manager("h1");
  fabric.settle();
  const std::uint64_t writes = manager.counters().writes;
  manager.request_sweep(fabric.now);
  fabric.plane.wake(fabric.port("h1", 1));
  fabric.settle();
  EXPECT_EQ(manager.counters().sweeps, 2U);
  EXPECT_EQ(manager.counters().writes, writes);
  fabric.run_for(Duration::seconds(30));
  EXPECT_EQ(manager.counters().writes, writes);
  EXPECT_EQ(manager.counters().sweeps, 2U);
  EXPECT_GE(manager.counters().light_sweeps, 2U);
}

TEST(SubnetManager, ARestartKeepsTheLids) {
  ManagedFabric fabric{*fabric::generate("fat-tree:4")};
  fabric.add_manager("h3");
  fabric.settle();
  std::vector<Lid> before;
  for (const fabric::PortRecord& port : fabric.builder.ports()) {
    before.push_back(port.lid);
  }
  fabric.remove_manager("h3");
  fabric.settle();
  fabric.add_manager("h6");
  fabric.settle();
  std::vector<Lid> after;
  for (const fabric::PortRecord& port : fabric.builder.ports()) {
    after.push_back(port.lid);
  }
  EXPECT_EQ(before, after);
  EXPECT_EQ(fabric.builder.port(fabric.port("h1", 1)).sm_lid,
            fabric.builder.port(fabric.port("h6", 1)).lid);
  EXPECT_THAT(fabric.unreachable(), IsEmpty());
}

// One link that is cut is routed around.
TEST(SubnetManager, ATrapOfACutLinkReroutesAndARepairBringsTheLinkBack) {
  ManagedFabric fabric{*fabric::generate("fat-tree:4")};
  SubnetManager& manager = fabric.add_manager("h1");
  fabric.settle();
  const fabric::PortIndex uplink = fabric.port("s1", 3);
  ASSERT_TRUE(fabric.plane.set_link(uplink, false, fabric.now).has_value());
  fabric.run_for(Duration::milliseconds(100));
  EXPECT_EQ(fabric.builder.port(uplink).state, fabric::PortState::Down);
  EXPECT_THAT(fabric.unreachable(), IsEmpty());
  EXPECT_GE(manager.counters().traps, 1U);
  ASSERT_TRUE(fabric.plane.set_link(uplink, true, fabric.now).has_value());
  fabric.settle();
  EXPECT_EQ(fabric.builder.port(uplink).state, fabric::PortState::Active);
  EXPECT_THAT(fabric.unreachable(), IsEmpty());
}

TEST(SubnetManager, TablesAreWrittenOnlyWhereTheyChange) {
  ManagedFabric fabric{*fabric::generate("fat-tree:8")};
  SubnetManager& manager = fabric.add_manager("h1");
  fabric.settle();
  const std::uint64_t writes = manager.counters().writes;
  // A host at a leaf: no other route changes.
  ASSERT_TRUE(fabric.plane.set_link(fabric.port("h9", 1), false, fabric.now).has_value());
  fabric.settle();
  EXPECT_LE(manager.counters().writes - writes, 12U * 2U + 4U);
  EXPECT_THAT(fabric.unreachable(), IsEmpty());
}

// Acceptance of issue 5: 100 random failures and repairs of links and switches.
TEST(SubnetManager, AllAliveHostsReachEachOtherAfterRandomFailuresAndRepairs) {
  for (const char* description : {"fat-tree:4", "fat-tree:4:3", "torus:4x4", "dragonfly:3:1:1"}) {
    SCOPED_TRACE(description);
    const fabric::Topology topology = *fabric::generate(description);
    ManagedFabric fabric{topology};
    fabric.add_manager("h1");
    fabric.settle();
    Random random{7};
    std::vector<bool> is_cut(topology.links.size());
    const auto set_link = [&](std::size_t link, bool is_up) {
      is_cut[link] = !is_up;
      ASSERT_TRUE(
          fabric.plane.set_link(fabric.builder.port_of(topology.links[link].a), is_up, fabric.now)
              .has_value());
    };
    for (int round = 0; round < 100; ++round) {
      for (std::uint64_t changes = 1 + random.below(4); changes != 0; --changes) {
        const std::size_t link = random.below(topology.links.size());
        const bool is_of_manager = topology.links[link].a.kind == fabric::NodeKind::Host &&
                                   topology.links[link].a.node == 0;
        if (random.chance(1, 4)) {  // a whole switch with all its cables
          const auto which = static_cast<std::uint32_t>(random.below(topology.switches.size()));
          const bool is_up = random.chance(1, 2);
          for (std::size_t i = 0; i < topology.links.size(); ++i) {
            const auto is_its = [&](const fabric::EndPoint& end) {
              return end.kind == fabric::NodeKind::Switch && end.node == which;
            };
            if (which != 0 && (is_its(topology.links[i].a) || is_its(topology.links[i].b))) {
              set_link(i, is_up);
            }
          }
        } else if (!is_of_manager) {
          set_link(link, is_cut[link]);
        }
        fabric.run_for(Duration::microseconds(static_cast<std::int64_t>(random.below(3000))));
      }
      fabric.run_for(Duration::seconds(20));
      // Nodes that the manager cannot reach cannot be routed: only its own component counts.
      const auto lost = fabric.unreachable_with("h1");
      ASSERT_THAT(lost, IsEmpty()) << "round " << round;
    }
  }
}

struct Recorder final : subnet::SubnetObserver {
  std::set<Gid> present;
  std::vector<wire::SmState> states;
  unsigned traps{};
  void subnet_changed(const Change& change, Instant) override {
    for (const Gid& gid : change.appeared) {
      EXPECT_TRUE(present.insert(gid).second);
    }
    for (const Gid& gid : change.disappeared) {
      EXPECT_EQ(present.erase(gid), 1U);
    }
  }
  void trap_received(const wire::Notice&, Instant) override { ++traps; }
  void state_changed(wire::SmState state, Instant) override { states.push_back(state); }
};

TEST(SubnetManager, TellsWhatCameAndWent) {
  ManagedFabric fabric{*fabric::generate("fat-tree:4")};
  Recorder recorder;
  fabric.add_manager("h1", {}, &recorder);
  fabric.settle();
  EXPECT_THAT(recorder.present, SizeIs(8 + 6));
  EXPECT_EQ(recorder.states, std::vector{wire::SmState::Master});
  ASSERT_TRUE(fabric.plane.set_link(fabric.port("h5", 1), false, fabric.now).has_value());
  fabric.settle();
  EXPECT_THAT(recorder.present, SizeIs(8 + 6 - 1));
  EXPECT_GE(recorder.traps, 1U);
  ASSERT_TRUE(fabric.plane.set_link(fabric.port("h5", 1), true, fabric.now).has_value());
  fabric.settle();
  EXPECT_THAT(recorder.present, SizeIs(8 + 6));
}

// Election and handover (IBTA vol 1 §14.4.1).
TEST(SubnetManager, OfTwoTheOneWithTheHigherPriorityIsMaster) {
  ManagedFabric fabric{*fabric::generate("fat-tree:4")};
  SubnetManagerOptions high;
  high.priority = 3;
  SubnetManager& low = fabric.add_manager("h1");
  fabric.settle();
  EXPECT_EQ(low.state(), wire::SmState::Master);
  SubnetManager& other = fabric.add_manager("h7", high);
  fabric.run_for(Duration::seconds(30));
  EXPECT_EQ(low.state(), wire::SmState::Standby);
  EXPECT_EQ(other.state(), wire::SmState::Master);
  EXPECT_EQ(fabric.builder.port(fabric.port("h2", 1)).sm_lid,
            fabric.builder.port(fabric.port("h7", 1)).lid);
  EXPECT_THAT(fabric.unreachable(), IsEmpty());
}

TEST(SubnetManager, OfEqualPriorityTheLowerGuidIsMaster) {
  ManagedFabric fabric{*fabric::generate("fat-tree:4")};
  SubnetManager& second = fabric.add_manager("h2");
  SubnetManager& first = fabric.add_manager("h1");
  fabric.run_for(Duration::seconds(60));
  EXPECT_EQ(first.state(), wire::SmState::Master);
  EXPECT_EQ(second.state(), wire::SmState::Standby);
}

TEST(SubnetManager, AStandbyTakesOverWhenTheMasterDies) {
  ManagedFabric fabric{*fabric::generate("fat-tree:4")};
  SubnetManagerOptions high;
  high.priority = 3;
  fabric.add_manager("h1", high);
  fabric.settle();
  Recorder recorder;
  SubnetManager& standby = fabric.add_manager("h5", {}, &recorder);
  fabric.settle();
  EXPECT_EQ(standby.state(), wire::SmState::Standby);
  fabric.remove_manager("h1");
  fabric.run_for(Duration::seconds(120));
  EXPECT_EQ(standby.state(), wire::SmState::Master);
  EXPECT_EQ(recorder.states, (std::vector{wire::SmState::Standby, wire::SmState::Discovering,
                                          wire::SmState::Master}));
  EXPECT_THAT(fabric.unreachable(), IsEmpty());
}

TEST(SubnetManager, AMasterKeepsTheSubnetFromStrangersWithAnotherKey) {
  ManagedFabric fabric{*fabric::generate("fat-tree:4")};
  SubnetManagerOptions options;
  options.sm_key = 42;
  SubnetManager& master = fabric.add_manager("h1", options);
  fabric.settle();
  SubnetManagerOptions stranger;
  stranger.priority = 15;  // has precedence, but cannot acknowledge a handover
  SubnetManager& other = fabric.add_manager("h4", stranger);
  fabric.run_for(Duration::seconds(60));
  EXPECT_EQ(master.state(), wire::SmState::Master);
  EXPECT_EQ(other.state(), wire::SmState::Standby);
}

TEST(SubnetManager, MulticastReachesTheMembersThatAreNamed) {
  ManagedFabric fabric{*fabric::generate("fat-tree:4")};
  SubnetManager& manager = fabric.add_manager("h1");
  fabric.settle();
  const auto members_of = [&](const std::vector<std::string>& names) {
    std::vector<subnet::MulticastMember> members;
    for (const std::string& name : names) {
      const Lid lid = fabric.builder.port(fabric.port(name, 1)).lid;
      members.push_back({*manager.subnet().find_lid(lid), subnet::MulticastRole::Full});
    }
    return members;
  };
  const auto reached = [&](const std::string& from) {
    const std::vector<std::byte> image = fabric.builder.build(1);
    const auto view = fabric::TablesView::open(image);
    return fabric::resolve_multicast(*view, fabric.port(from, 1), Lid{0xC001}).members.size();
  };
  ASSERT_TRUE(manager.set_multicast_members(Lid{0xC001}, members_of({"h1", "h4", "h8"}), fabric.now)
                  .has_value());
  fabric.plane.wake(fabric.port("h1", 1));
  fabric.settle();
  EXPECT_EQ(reached("h1"), 2U);
  EXPECT_EQ(reached("h8"), 2U);
  ASSERT_TRUE(
      manager.set_multicast_members(Lid{0xC001}, members_of({"h1", "h4"}), fabric.now).has_value());
  fabric.plane.wake(fabric.port("h1", 1));
  fabric.settle();
  EXPECT_EQ(reached("h4"), 1U);
  ASSERT_TRUE(fabric.plane.set_link(fabric.port("s1", 3), false, fabric.now).has_value());
  fabric.settle();
  EXPECT_EQ(reached("h1"), 1U);
  EXPECT_FALSE(manager.set_multicast_members(Lid{0xBFFF}, {}, fabric.now));
}

TEST(SubnetManager, PathsHaveTheFactsOfTheirLinks) {
  ManagedFabric fabric{*fabric::generate("fat-tree:4")};
  SubnetManager& manager = fabric.add_manager("h1");
  fabric.settle();
  const auto path = manager.path(Lid{1}, Lid{8});
  ASSERT_TRUE(path.has_value());
  EXPECT_THAT(path->steps, SizeIs(8));
  EXPECT_EQ(path->mtu, verbs::Mtu::Mtu4096);
  EXPECT_NE(path->rate, 0);
  EXPECT_EQ(manager.path(Lid{1}, Lid{1})->steps.size(), 0U);
  EXPECT_TRUE(manager.path(Lid{1}, Lid{9}).has_value());  // a switch
  EXPECT_FALSE(manager.path(Lid{1}, Lid{200}));
}

TEST(SubnetManager, PartitionsAreWrittenToThePorts) {
  ManagedFabric fabric{*fabric::generate("fat-tree:4")};
  SubnetManagerOptions options;
  const Guid h2 = fabric.builder.port(fabric.port("h2", 1)).guid;
  using Membership = subnet::Partition::Membership;
  options.partitions = {
      {.pkey = kDefaultPKey, .default_membership = Membership::Limited, .members = {}},
      {.pkey = PKey{0x8123},
       .default_membership = Membership::None,
       .members = {{h2, Membership::Full}}                                           }
  };
  fabric.add_manager("h1", options);
  fabric.settle();
  const auto pkeys = [&](const std::string& name) {
    const auto all = fabric.builder.pkeys(fabric.port(name, 1));
    return std::vector<PKey>(all.begin(), all.end());
  };
  EXPECT_EQ(pkeys("h1"), std::vector{PKey{0x7FFF}});
  EXPECT_EQ(pkeys("h2"), (std::vector{PKey{0x7FFF}, PKey{0x8123}}));
}

TEST(SubnetManager, ReadsLanesForSaRecordsOnce) {
  ManagedFabric fabric{*fabric::generate("star:3")};
  SubnetManager& manager = fabric.add_manager("h1");
  fabric.settle();
  const subnet::SubnetPort& host = manager.subnet().port(*manager.subnet().find_lid(Lid{2}));
  ASSERT_THAT(host.sl_to_vl, SizeIs(1));
  EXPECT_EQ(host.sl_to_vl[0].vls[3], VirtualLane{3});
  EXPECT_THAT(host.vl_arbitration, SizeIs(3));  // 8 entries each: no block 2 and 4
  const subnet::SubnetPort& at = manager.subnet().port(host.peer);
  EXPECT_THAT(at.sl_to_vl, SizeIs(4));  // from ports 0 to 3
  const std::uint64_t reads = manager.counters().reads;
  manager.request_sweep(fabric.now);
  fabric.plane.wake(fabric.port("h1", 1));
  fabric.settle();
  // attributes that cannot have changed are not read
  EXPECT_LT(manager.counters().reads - reads, 20U);
}

/// Creates a group with all members, as SA does at start.
struct GroupOfAll final : subnet::SubnetObserver {
  SubnetManager* manager{};
  void subnet_changed(const Change& change, Instant now) override {
    std::vector<subnet::MulticastMember> members;
    for (const Gid& gid : change.appeared) {
      const subnet::PortId port = *manager->subnet().find_gid(gid);
      if (!manager->subnet().node(port.node).is_switch()) {
        members.push_back({port, subnet::MulticastRole::Full});
      }
    }
    EXPECT_TRUE(manager->set_multicast_members(Lid{0xC000}, members, now).has_value());
  }
  void trap_received(const wire::Notice&, Instant) override {}
  void state_changed(wire::SmState, Instant) override {}
};

TEST(SubnetManager, GroupsMadeAtOnceDoNotKeepItFromReadingLanes) {
  ManagedFabric fabric{*fabric::generate("star:3")};
  GroupOfAll observer;
  SubnetManager& manager = fabric.add_manager("h1", {}, &observer);
  observer.manager = &manager;
  fabric.settle();
  EXPECT_TRUE(manager.is_settled());
  const std::vector<std::byte> image = fabric.builder.build(1);
  const auto view = fabric::TablesView::open(image);
  EXPECT_THAT(fabric::resolve_multicast(*view, fabric.port("h1", 1), Lid{0xC000}).members,
              SizeIs(2));
  EXPECT_THAT(manager.subnet().port(*manager.subnet().find_lid(Lid{2})).sl_to_vl, SizeIs(1));
}

TEST(SubnetManager, WritesTheLanesThatRoutesNeed) {
  ManagedFabric fabric{*fabric::generate("torus:5x5")};
  SubnetManagerOptions options;
  options.engines = {RoutingEngine::DeadlockFree};
  SubnetManager& manager = fabric.add_manager("h1", options);
  fabric.settle();
  std::set<unsigned> levels;
  for (std::uint32_t lid = 2; lid <= 25; ++lid) {
    levels.insert(manager.path(Lid{1}, Lid{lid})->sl.value());
  }
  const subnet::SubnetPort& host = manager.subnet().port(*manager.subnet().find_lid(Lid{2}));
  for (const unsigned level : levels) {
    EXPECT_EQ(host.sl_to_vl[0].vls[level], VirtualLane{static_cast<std::uint8_t>(level)});
  }
  EXPECT_GT(host.vl_arbitration[0].entries[1].weight, 0);
  EXPECT_EQ(manager.subnet().port(host.peer).sl_to_vl.size(), 6U);
}

TEST(SubnetManager, AnHcaWithSeveralPortsHasLidsOnEachThatHasACable) {
  fabric::Topology topology;
  topology.hosts = {fabric::make_host("h1", 2, 2), fabric::make_host("h2")};
  topology.switches = {
      {.name = "s1", .port_count = 5, .guid = {}}
  };
  for (std::uint8_t i = 0; i < 4; ++i) {
    topology.links.push_back({
        .a = {fabric::NodeKind::Host, 0, static_cast<std::uint8_t>(i / 2),
              PortNumber{static_cast<std::uint8_t>(i % 2 + 1)}},
        .b = {fabric::NodeKind::Switch, 0, 0, PortNumber{static_cast<std::uint8_t>(i + 1)}},
        .rate_gbps = {},
        .delay = {}
    });
  }
  topology.links.push_back({
      .a = {fabric::NodeKind::Host, 1, 0, PortNumber{1}},
      .b = {fabric::NodeKind::Switch, 0, 0, PortNumber{5}},
      .rate_gbps = {},
      .delay = {}
  });
  ManagedFabric fabric{topology};
  SubnetManager& manager = fabric.add_manager("h1");
  fabric.settle();
  EXPECT_TRUE(manager.is_settled());
  EXPECT_EQ(manager.subnet().nodes().size(), 4U);
  EXPECT_EQ(manager.subnet().highest_lid(), Lid{6});
  EXPECT_THAT(fabric.unreachable(), IsEmpty());
}

TEST(SubnetManager, ALinkWithoutASwitchComesBackWithTheNextLightSweep) {
  ManagedFabric fabric{fabric::generate_pair()};
  fabric.add_manager("h1");
  fabric.settle();
  const fabric::PortIndex port = fabric.port("h1", 1);
  ASSERT_TRUE(fabric.plane.set_link(port, false, fabric.now).has_value());
  fabric.run_for(Duration::seconds(30));
  ASSERT_TRUE(fabric.plane.set_link(port, true, fabric.now).has_value());
  fabric.run_for(Duration::seconds(30));
  EXPECT_EQ(fabric.builder.port(port).state, fabric::PortState::Active);
  EXPECT_EQ(fabric.builder.port(fabric.port("h2", 1)).lid, Lid{2});
}

TEST(SubnetManager, ReadsANameAgainThatChanged) {
  ManagedFabric fabric{*fabric::generate("star:3")};
  SubnetManager& manager = fabric.add_manager("h1");
  fabric.settle();
  ASSERT_TRUE(fabric.plane.agents()
                  .set_node_description(fabric.port("h3", 1), "a new name", fabric.now)
                  .has_value());
  fabric.settle();
  const subnet::PortId h3 = *manager.subnet().find_lid(Lid{3});
  EXPECT_EQ(manager.subnet().node(h3.node).description.text[0], std::byte{'a'});
}

/// Sends forged SMPs to the manager.
class Stranger {
 public:
  Stranger(ManagedFabric& fabric, const std::string& host)
      : fabric_(fabric), at_(fabric.port(host, 1)) {
    mad::Registration registration;
    registration.mgmt_class = wire::ManagementClass::SubnLidRouted;
    registration.name = "stranger";
    agent_ = *smi().register_agent(registration, nullptr);
  }

  /// The status of the answer, or none.
  std::optional<std::uint16_t> ask(Lid to, wire::MadMethod method, wire::SmpAttribute attribute,
                                   std::uint32_t modifier, const subnet::SmpData& data) {
    wire::SmpLidRouted smp;
    smp.header.method = method;
    smp.header.attribute_id = static_cast<std::uint16_t>(attribute);
    smp.header.attribute_modifier = modifier;
    smp.data = data;
    std::optional<std::uint16_t> status;
    mad::MadMessage message;
    message.mad = wire::pack(smp);
    mad::MadAddress address;
    address.lid = to;
    address.qp = kQp0;
    EXPECT_TRUE(smi()
                    .send(
                        agent_, address, message, {},
                        [&](const mad::Completion& completion) {
                          if (completion.status == mad::TransactionStatus::Answered) {
                            status = completion.answer->status();
                          }
                        },
                        fabric_.now)
                    .has_value());
    fabric_.plane.wake(at_);
    fabric_.run_for(Duration::seconds(20));
    return status;
  }

 private:
  mad::ManagementInterface& smi() { return fabric_.plane.port(at_).smi(); }

  ManagedFabric& fabric_;
  fabric::PortIndex at_;
  mad::AgentId agent_{};
};

TEST(SubnetManager, RefusesControlFromAFalseManager) {
  ManagedFabric fabric{*fabric::generate("fat-tree:4")};
  SubnetManagerOptions high;
  high.priority = 3;
  SubnetManager& master = fabric.add_manager("h1", high);
  SubnetManager& standby = fabric.add_manager("h2");
  fabric.settle();
  ASSERT_EQ(standby.state(), wire::SmState::Standby);
  Stranger stranger{fabric, "h5"};
  wire::SmInfo info;
  info.guid = Guid{0xBAD};
  info.priority = 15;
  info.state = wire::SmState::Master;
  for (std::uint32_t control = 0; control <= 7; ++control) {
    for (const Lid manager : {Lid{1}, Lid{2}}) {
      EXPECT_EQ(stranger.ask(manager, wire::MadMethod::Set, wire::SmpAttribute::SmInfo, control,
                             subnet::smp_data(info)),
                wire::kMadStatusInvalidField);
    }
  }
  EXPECT_EQ(master.state(), wire::SmState::Master);
  EXPECT_EQ(standby.state(), wire::SmState::Standby);
  EXPECT_EQ(master.counters().refused_controls, 8U);
  EXPECT_EQ(stranger.ask(Lid{1}, wire::MadMethod::Get, wire::SmpAttribute::SmInfo, 0, {}), 0);
}

TEST(SubnetManager, TrapsInTheNameOfOthersAreNotHeard) {
  ManagedFabric fabric{*fabric::generate("fat-tree:4")};
  SubnetManager& master = fabric.add_manager("h1");
  fabric.settle();
  Stranger stranger{fabric, "h5"};
  wire::Notice notice;
  notice.trap_number = static_cast<std::uint16_t>(wire::Trap::LinkStateChange);
  notice.issuer_lid = Lid{9};  // a switch
  const std::uint64_t sweeps = master.counters().sweeps;
  stranger.ask(Lid{1}, wire::MadMethod::Trap, wire::SmpAttribute::Notice, 0,
               subnet::smp_data(notice));
  EXPECT_EQ(master.counters().sweeps, sweeps);
  EXPECT_EQ(master.counters().traps, 0U);
  notice.issuer_lid = Lid{5};  // its own
  stranger.ask(Lid{1}, wire::MadMethod::Trap, wire::SmpAttribute::Notice, 0,
               subnet::smp_data(notice));
  EXPECT_GT(master.counters().sweeps, sweeps);
  EXPECT_GE(master.counters().traps, 1U);
}

}  // namespace
}  // namespace weft::node
