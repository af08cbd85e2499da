#include "node/node_change.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace weft::node {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(NodeChange, ReadsHostsAndSwitches) {
  const auto host = read_node_change("add host h9 link=s1:7 link=s2:7 hcas=2");
  ASSERT_TRUE(host) << host.error().reason;
  EXPECT_EQ(host->action, NodeChange::Action::Add);
  EXPECT_EQ(host->kind, fabric::NodeKind::Host);
  EXPECT_EQ(host->name, "h9");
  EXPECT_EQ(host->hcas, 2U);
  EXPECT_EQ(host->ports, 1U);
  EXPECT_THAT(host->links, ElementsAre("s1:7", "s2:7"));
  const auto node = read_node_change("add switch s5  ports=8 link=s1:8");
  ASSERT_TRUE(node) << node.error().reason;
  EXPECT_EQ(node->kind, fabric::NodeKind::Switch);
  EXPECT_EQ(node->ports, 8U);
  const auto gone = read_node_change("remove h9 force");
  ASSERT_TRUE(gone) << gone.error().reason;
  EXPECT_EQ(gone->action, NodeChange::Action::Remove);
  EXPECT_TRUE(gone->is_forced);
  EXPECT_FALSE(read_node_change("remove h9")->is_forced);
}

TEST(NodeChange, ReadsWhatAVirtualFunctionIsGiven) {
  const auto made = read_node_change("add vf v1 of=h1:1 pkeys=2,0x8005 mads=9 groups=0");
  ASSERT_TRUE(made) << made.error().reason;
  EXPECT_EQ(made->of, "h1:1");
  const PKeyChoice by_index{.index = 2};
  const PKeyChoice by_key{.key = PKey{0x8005}};
  ASSERT_TRUE(made->function.pkeys);
  EXPECT_EQ(*made->function.pkeys, (std::vector{by_index, by_key}));
  EXPECT_EQ(made->function.mads_per_second, 9U);
  EXPECT_EQ(made->function.groups, 0U);
  const auto set = read_node_change("set vf v1 groups=3");
  ASSERT_TRUE(set) << set.error().reason;
  EXPECT_EQ(set->action, NodeChange::Action::Set);
  EXPECT_FALSE(set->function.pkeys);
  EXPECT_FALSE(set->function.mads_per_second);
  for (const char* text : {"pkeys=0,0", "pkeys=0x8005,0x8005", "pkeys=0x0000", "pkeys=0x10000",
                           "pkeys=,", "pkeys=-1", "mads=x", "groups=-1", "mads=4294967296"}) {
    const auto refused = read_node_change(std::string{"set vf v1 "} + text);
    ASSERT_FALSE(refused) << text;
    EXPECT_THAT(refused.error().reason, HasSubstr("will not do")) << text;
  }
}

TEST(NodeChange, ReadsWhereAVirtualFunctionMoves) {
  const auto moved = read_node_change("move vf v1 of=h3/weft1:2");
  ASSERT_TRUE(moved) << moved.error().reason;
  EXPECT_EQ(moved->action, NodeChange::Action::Move);
  EXPECT_EQ(moved->name, "v1");
  EXPECT_EQ(moved->of, "h3/weft1:2");
  for (const char* text :
       {"move vf v1", "move v1 of=h3", "move vf of=h3", "move vf v1 of=", "move vf v1 of=h3 mads=3",
        "move vf v1 of=h3 force", "move vf v1 of=h3 link=s1:1"}) {
    const auto refused = read_node_change(text);
    ASSERT_FALSE(refused) << text;
    EXPECT_THAT(refused.error().reason, HasSubstr("is not one of")) << text;
  }
}

TEST(NodeChange, ReadsWhetherAVirtualFunctionHasAPort) {
  const auto made = read_node_change("add vf v1 mads=3");
  ASSERT_TRUE(made) << made.error().reason;
  EXPECT_TRUE(made->is_function);
  EXPECT_EQ(made->of, "");
  const auto assigned = read_node_change("assign vf v1 of=h1:1");
  ASSERT_TRUE(assigned) << assigned.error().reason;
  EXPECT_EQ(assigned->action, NodeChange::Action::Assign);
  EXPECT_EQ(assigned->of, "h1:1");
  const auto taken = read_node_change("unassign vf v1");
  ASSERT_TRUE(taken) << taken.error().reason;
  EXPECT_EQ(taken->action, NodeChange::Action::Unassign);
  EXPECT_FALSE(read_node_change("add host h9 link=s1:7")->is_function);
  for (const char* text : {"assign vf v1", "assign v1 of=h1", "assign vf v1 of=h1 mads=3",
                           "unassign vf v1 of=h1", "unassign v1", "unassign vf"}) {
    const auto refused = read_node_change(text);
    ASSERT_FALSE(refused) << text;
    EXPECT_THAT(refused.error().reason, HasSubstr("is not one of")) << text;
  }
}

TEST(NodeChange, RefusesWhatIsNone) {
  for (const char* text :
       {"", "add", "add h9 link=s1:7", "add host",
        "add host h9 link=", "add host h9 link=s1:7 force", "add host h9 link=s1:7 ports=x",
        "add switch s5 ports=8 hcas=1 link=s1:7", "remove", "remove h9 link=s1:7", "move h9"}) {
    const auto change = read_node_change(text);
    ASSERT_FALSE(change) << text;
    EXPECT_THAT(change.error().reason, HasSubstr("is not one of: add host")) << text;
  }
}

TEST(NodeChange, KeepsToTheLimits) {
  for (const char* text : {"add host h9", "add host h9 link=s1:7 link=s1:8",
                           "add switch s5 link=s1:7", "add switch s5 ports=255 link=s1:7",
                           "add host h9 ports=3 link=s1:7", "add host h9 hcas=255 link=s1:7"}) {
    EXPECT_FALSE(read_node_change(text)) << text;
  }
}

TEST(NodeChange, SetsTheGuidsAndThePolicyOfAFunction) {
  const auto set = read_node_change(
      "set vf v1 policy=up node_guid=0x0002C90300000011 port_guid=0x2c90300000012");
  ASSERT_TRUE(set) << set.error().reason;
  EXPECT_EQ(set->function.policy, verbs::PortPolicy::Up);
  EXPECT_EQ(set->guids.node, Guid{0x0002'C903'0000'0011});
  EXPECT_EQ(set->guids.port, Guid{0x0002'C903'0000'0012});
  EXPECT_EQ(read_node_change("add vf v1 of=h1 policy=down")->function.policy,
            verbs::PortPolicy::Down);
  EXPECT_EQ(read_node_change("add vf v1 of=h1 trust=on")->function.is_trusted, true);
  EXPECT_EQ(read_node_change("set vf v1 trust=off")->function.is_trusted, false);
  EXPECT_EQ(set->function.is_trusted, std::nullopt);
  for (const char* text :
       {"set vf v1 policy=Up", "set vf v1 policy=auto", "set vf v1 trust=yes",
        "set vf v1 trust=", "set vf v1 node_guid=11", "set vf v1 node_guid=0x",
        "set vf v1 node_guid=0x0", "set vf v1 port_guid=0x1G",
        "set vf v1 port_guid=0xffffffffffffffff", "set vf v1 port_guid=0x11223344556677889",
        "add vf v1 of=h1 node_guid=0x11", "move vf v1 of=h1 policy=up"}) {
    EXPECT_FALSE(read_node_change(text)) << text;
  }
}

}  // namespace
}  // namespace weft::node
