#include "fabric/tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/random.h"
#include "fabric/path.h"
#include "fabric/tables_image.h"
#include "fabric/testing/omni_path_star.h"
#include "fabric/testing/running_fabric.h"

namespace weft::fabric {
namespace {

using ::testing::HasSubstr;
using testing::RunningFabric;

TEST(Tables, SayWhatTheTopologySays) {
  const Topology topology = testing::many_ports();
  const RunningFabric fabric{topology};
  const TablesView view = fabric.view();
  EXPECT_EQ(view.nodes().size(), 3U);
  EXPECT_EQ(view.hcas().size(), 3U);
  EXPECT_EQ(view.ports().size(), 2U * 2 + 1 + 7);
  for (const LinkDescription& link : topology.links) {
    const PortIndex a = fabric.builder.port_of(link.a);
    EXPECT_EQ(view.port(a).peer, fabric.builder.port_of(link.b));
    EXPECT_EQ(port_name(view, a), to_string(topology, link.a));
  }
  EXPECT_EQ(port_name(view, fabric.port("h1", 2, 1)), "h1/weft1:2");
  const NodeRecord& h1 = view.node(fabric.node("h1"));
  EXPECT_EQ(view.name(view.hcas_of(h1)[1]), "weft1");
  EXPECT_EQ(view.hcas_of(h1)[1].guid, make_guid(NodeKind::Host, 0, 1, 0));
  EXPECT_EQ(view.hcas_of(h1)[1].system_image_guid, h1.guid);
  EXPECT_EQ(view.ports_of(view.hcas_of(h1)[1])[1].guid, make_guid(NodeKind::Host, 0, 1, 2));
}

TEST(Tables, FindPortsByNameLidAndGid) {
  const RunningFabric fabric{testing::many_ports()};
  const TablesView view = fabric.view();
  EXPECT_FALSE(view.find_node("h3"));
  EXPECT_FALSE(view.find_port(fabric.node("h1"), PortNumber{0}));
  EXPECT_FALSE(view.find_port(fabric.node("h1"), PortNumber{3}));
  EXPECT_FALSE(view.find_port(fabric.node("h1"), PortNumber{1}, 2));
  EXPECT_FALSE(view.find_port(fabric.node("s1"), PortNumber{7}));
  for (std::size_t i = 0; i < view.ports().size(); ++i) {
    const PortRecord& port = view.ports()[i];
    if (port.is_switch_port() && port.number != PortNumber{}) {
      EXPECT_TRUE(view.gids(port).empty());
      continue;
    }
    const PortIndex index{static_cast<std::uint32_t>(i)};
    EXPECT_EQ(view.owner_of(port.lid), index);
    ASSERT_EQ(view.gids(port).size(), 1U);
    EXPECT_EQ(view.gids(port)[0], (Gid{kDefaultGidPrefix, port.guid}));
    EXPECT_EQ(view.owner_of(view.gids(port)[0]), index);
    EXPECT_THAT(view.pkeys(port), ::testing::ElementsAre(kDefaultPKey));
  }
  EXPECT_EQ(view.owner_of(Lid{0}), kNoPort);
  EXPECT_EQ(view.owner_of(Lid{0xFFFF}), kNoPort);
  EXPECT_EQ(view.owner_of(Gid{}), kNoPort);
}

TEST(Tables, AttributesOfAPortAreItsRecordAndItsTables) {
  const std::vector gids = {
      Gid{kDefaultGidPrefix, Guid{1}},
      Gid{kDefaultGidPrefix, Guid{2}}
  };
  const std::vector pkeys = {PKey{0x8001}, kDefaultPKey};
  PortRecord record;
  record.lid = Lid{4};
  record.lmc = 2;
  record.state = PortState::Armed;
  record.max_mtu = verbs::Mtu::Mtu2048;
  record.active_mtu = verbs::Mtu::Mtu1024;
  record.active_width = 2;
  record.active_speed = 4;
  record.sm_sl = ServiceLevel{3};
  record.sm_lid = Lid{1};
  const verbs::PortAttributes expected{.state = verbs::PortState::Armed,
                                       .lid = Lid{4},
                                       .lmc = 2,
                                       .sm_lid = Lid{1},
                                       .sm_sl = ServiceLevel{3},
                                       .max_mtu = verbs::Mtu::Mtu2048,
                                       .active_mtu = verbs::Mtu::Mtu1024,
                                       .active_width = 2,
                                       .active_speed = 4,
                                       .gids = gids,
                                       .pkeys = pkeys};
  EXPECT_EQ(attributes_of(record, gids, pkeys), expected);
}

TEST(Tables, AreOpenedOnlyWhole) {
  const RunningFabric fabric{generate_pair()};
  const std::vector<std::byte> image = fabric.builder.build(1);
  ASSERT_TRUE(TablesView::open(image));
  for (std::size_t size = 0; size < image.size(); ++size) {
    EXPECT_FALSE(TablesView::open(ByteSpan{image}.first(size))) << size;
  }
  const std::vector<std::byte> zeros(4096);
  EXPECT_FALSE(TablesView::open(zeros));
}

/// Everything that a process does with tables of another process.
void use(const TablesView& view) {
  EXPECT_FALSE(show(view).empty());
  for (std::uint32_t i = 0; i < view.ports().size(); ++i) {
    const PortRecord& port = view.ports()[i];
    (void)view.gids(port).size();
    (void)view.pkeys(port).size();
    if (port.is_switch_port() && port.number != PortNumber{}) {
      continue;
    }
    for (const Lid lid : {Lid{1}, Lid{2}, Lid{5}, Lid{9}}) {
      (void)resolve(view, PortIndex{i}, lid);
    }
    (void)resolve_multicast(view, PortIndex{i}, Lid{0xC000});
  }
  (void)view.owner_of(Gid{kDefaultGidPrefix, Guid{1}});
}

TEST(Tables, OfForeignBytesAreRefusedOrSafe) {
  const RunningFabric fabric{*generate_fat_tree(4, 2)};
  const std::vector<std::byte> good = fabric.builder.build(1);
  Random random{1};
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::byte> bad = good;
    for (std::uint64_t flips = random.below(3) + 1; flips > 0; --flips) {
      bad[random.below(bad.size())] ^= static_cast<std::byte>(1 + random.below(255));
    }
    const auto view = TablesView::open(bad);
    if (view) {
      use(*view);
    } else {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(Tables, OfAPeerThatDoesNotPointBackAreRefused) {
  const RunningFabric fabric{*generate_star(3)};
  std::vector<std::byte> image = fabric.builder.build(1);
  ImageHeader header;
  copy_bytes(std::as_writable_bytes(std::span{&header, 1}),
             ByteSpan{image}.first(sizeof(ImageHeader)));
  const std::size_t at = header.sections[static_cast<std::size_t>(SectionId::Ports)].offset +
                         offsetof(PortRecord, peer);
  image[at] ^= std::byte{1};
  EXPECT_FALSE(TablesView::open(image));
}

TEST(Tables, OfFaultsThatNoRuleCanHaveAreRefused) {
  RunningFabric fabric{*generate_star(3)};
  const auto opens_with = [&](const FaultRecord& record) {
    fabric.builder.set_faults({record});
    return TablesView::open(fabric.builder.build(1)).has_value();
  };
  const FaultRecord good;
  EXPECT_TRUE(opens_with(good));
  const auto refuses = [&](auto change) {
    FaultRecord bad = good;
    change(bad);
    EXPECT_FALSE(opens_with(bad));
  };
  refuses([](FaultRecord& bad) { bad.kind = FaultKind::Down; });
  refuses([](FaultRecord& bad) { bad.kind = FaultKind{}; });
  refuses([](FaultRecord& bad) { bad.every = 0; });
  refuses([](FaultRecord& bad) { bad.parts_per_million = FaultDescription::kAlways + 1; });
  refuses([](FaultRecord& bad) { bad.slot = kMaxFaultRules; });
  refuses([](FaultRecord& bad) { bad.hold_ns = -1; });
  refuses([](FaultRecord& bad) { bad.hold_ns = Duration::seconds(2).nanoseconds(); });
  refuses([](FaultRecord& bad) { bad.egress = PortIndex{99}; });
}

TEST(Tables, OfElevenThousandHostsAreSmall) {
  const auto topology = generate_fat_tree(36, 3);
  ASSERT_EQ(topology->hosts.size(), 11'664U);
  TablesBuilder builder{*topology};
  testing::TestRoutes manager{builder};
  ASSERT_TRUE(manager.bring_up());
  const std::vector<std::byte> image = builder.build(1);
  EXPECT_LT(image.size(), 40'000'000U);
  const auto view = TablesView::open(image);
  ASSERT_TRUE(view) << view.error().reason;
  const auto last = view->find_node("h11664");
  ASSERT_TRUE(last);
  const Path path = resolve(*view, PortIndex{0}, view->port(view->node(*last).first_port).lid);
  EXPECT_TRUE(path.is_delivered());
  EXPECT_EQ(path.hops.size(), 6U);
}

TEST(Show, NamesStatesLidsAndTaps) {
  RunningFabric fabric{*generate_star(2)};
  fabric.builder.set_tapped(fabric.port("h2", 1), true);
  fabric.builder.set_trusted(fabric.port("h2", 1), true);
  fabric.builder.set_link_state(fabric.port("h1", 1), PortState::Down);
  fabric.publish();
  EXPECT_EQ(show(fabric.view()),
            "generation 2, subnet prefix 0xfe80000000000000\n"
            "host h1\n"
            "  weft0 node GUID 0x0257461000010000\n"
            "    port 1 Down LID 1 -> s1:1\n"
            "host h2\n"
            "  weft0 node GUID 0x0257461000020000\n"
            "    port 1 Active LID 2 tapped trusted -> s1:2\n"
            "switch s1 node GUID 0x0257462000010000\n"
            "    port 0 Active LID 3\n"
            "    port 1 Down -> h1:1\n"
            "    port 2 Active -> h2:1\n");
}

TEST(Tables, ShowOmniPathPortsAndTheirLids) {
  TablesBuilder builder{testing::omni_path_beside_infiniband()};
  testing::bring_up_omni_path(builder);
  const std::vector<std::byte> image = builder.build(1);
  const TablesView view = *TablesView::open(image);
  EXPECT_THAT(show(view), HasSubstr(" OmniPath\n    port 1 Active LID 0x123401 -> os1:1\n"));
  const PortRecord& o1 = view.port(*view.find_port(*view.find_node("o1"), PortNumber{1}));
  const verbs::PortAttributes seen = attributes_of(o1, view.gids(o1), view.pkeys(o1));
  EXPECT_EQ(seen.state, PortState::Down);  // for verbs, which cannot send there
  EXPECT_EQ(seen.lid, Lid{});
}

}  // namespace
}  // namespace weft::fabric
