// Virtual functions in a fabric: hosts without a cable that share the port of another.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agents/port_agent.h"
#include "base/process_slot.h"
#include "fabric/virtual_ports.h"
#include "node/fabric.h"

namespace weft::node {
namespace {

using fabric::PortIndex;
using fabric::PortRecord;
using fabric::PortState;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class VirtualFunctions : public ::testing::Test {
 protected:
  void SetUp() override { made_ = std::move(*Fabric::create(*fabric::generate_star(2), now_)); }
  Fabric& fabric() { return *made_; }
  [[nodiscard]] const fabric::TablesBuilder& tables() { return fabric().builder(); }

  /// The reason of a refusal, or nothing.
  std::string change(std::string_view text) {
    const auto read = read_node_change(text);
    const auto changed =
        read ? fabric().change_node(*read, now_) : Result<void>{std::unexpected(read.error())};
    settle();
    return changed ? "" : changed.error().reason;
  }
  void settle() {
    const Instant end = now_ + Duration::seconds(3);
    while (now_ < end) {
      while (fabric().run_management(now_)) {
      }
      now_ =
          std::min(end, std::max(fabric().management_deadline(), now_ + Duration::nanoseconds(1)));
    }
  }
  PortIndex port(std::string_view node) {
    const auto found = tables().find_node(node);
    EXPECT_TRUE(found) << node;
    return tables().node(*found).first_port;
  }

  Instant now_{Duration::seconds(1)};
  std::unique_ptr<Fabric> made_;
};

TEST_F(VirtualFunctions, HaveTheLidOfTheirPortAndTheirOwnGid) {
  ASSERT_EQ(change("add vf v1 of=h1"), "");
  const PortRecord& physical = tables().port(port("h1"));
  const PortRecord& function = tables().port(port("v1"));
  EXPECT_EQ(function.state, PortState::Active);
  EXPECT_EQ(function.lid, physical.lid);
  EXPECT_EQ(function.sm_lid, physical.sm_lid);
  EXPECT_EQ(function.peer, fabric::kNoPort);
  const auto gids = tables().gids(port("h1"));
  ASSERT_EQ(gids.size(), 2U);  // SA had the manager write it
  EXPECT_THAT(tables().gids(port("v1")), ElementsAre(gids[1]));
  EXPECT_NE(gids[0], gids[1]);
}

TEST_F(VirtualFunctions, AreFoundByLidAndQpn) {
  ASSERT_EQ(change("add vf v1 of=h1"), "");
  ASSERT_EQ(change("add vf v2 of=h1:1"), "");
  const std::vector<std::byte> image = fabric().next_tables();
  const auto view = fabric::TablesView::open(image);
  ASSERT_TRUE(view);
  const auto first_qpn = [&](std::string_view host) {
    const auto process = fabric().attach(host, now_);
    EXPECT_TRUE(process);
    return first_qpn_of(process->slot);
  };
  const Lid lid = view->port(port("h1")).lid;
  EXPECT_EQ(view->owner_of(lid), port("h1"));
  for (const std::string_view host : {"h1", "v1", "v2"}) {
    EXPECT_EQ(fabric::port_of_qp(*view, lid, first_qpn(host)), port(host)) << host;
    EXPECT_EQ(fabric::port_of_node(*view, view->port(port(host)).node, lid), port(host)) << host;
    EXPECT_EQ(fabric::physical_port(*view, port(host)), port("h1")) << host;
  }
  EXPECT_THAT(fabric::functions_of(*view, port("h1")), ElementsAre(port("v1"), port("v2")));
  EXPECT_EQ(fabric::port_of_node(*view, view->port(port("h2")).node, lid), fabric::kNoPort);
  EXPECT_EQ(view->owner_of(view->gids(view->port(port("v2"))).front()), port("v2"));
}

TEST_F(VirtualFunctions, FollowTheirPort) {
  ASSERT_EQ(change("add vf v1 of=h2"), "");
  ASSERT_TRUE(fabric().change_port(port("h2"), {.is_plugged = false, .settings = {}}, now_));
  settle();
  EXPECT_EQ(tables().port(port("v1")).state, PortState::Down);
  ASSERT_TRUE(fabric().change_port(port("h2"), {.is_plugged = true, .settings = {}}, now_));
  settle();
  EXPECT_EQ(tables().port(port("v1")).state, PortState::Active);
}

TEST_F(VirtualFunctions, HavePKeyTablesOfTheirOwn) {
  const std::vector<PKey> pkeys{kDefaultPKey, PKey{0x8005}, PKey{0x8006}};
  fabric::Topology topology = *fabric::generate_star(2);
  topology.hosts[0].hcas[0].ports[0].pkeys = pkeys;
  made_ = std::move(*Fabric::create(topology, now_));
  settle();
  EXPECT_THAT(change("add vf v1 of=h1 pkeys=0,3"), HasSubstr("the entries 0 to 2"));
  EXPECT_THAT(change("add vf v1 of=h1 pkeys=0,"), HasSubstr("pkeys=ENTRY"));
  EXPECT_THAT(change("add vf v1 of=h1 pkeys=0x8007"), HasSubstr("has 0xffff, 0x8005, 0x8006"));
  EXPECT_FALSE(tables().find_node("v1"));
  ASSERT_EQ(change("add vf v1 of=h1 pkeys=0,2"), "");
  ASSERT_EQ(change("add vf v2 of=h1 pkeys=1"), "");
  EXPECT_THAT(tables().pkeys(port("v1")), ElementsAre(pkeys[0], pkeys[2]));
  EXPECT_THAT(tables().pkeys(port("v2")), ElementsAre(pkeys[1]));
}

TEST_F(VirtualFunctions, MoveWithTheirPKeysToAPortThatHasThem) {
  fabric::Topology topology = *fabric::generate_star(3);
  topology.hosts[0].hcas[0].ports[0].pkeys = {kDefaultPKey, PKey{0x8005}};
  topology.hosts[1].hcas[0].ports[0].pkeys = {kDefaultPKey, PKey{0x8006}, PKey{0x8005}};
  made_ = std::move(*Fabric::create(topology, now_));
  settle();
  ASSERT_EQ(change("add vf v1 of=h1 pkeys=0x8005"), "");
  const Gid gid = tables().gids(port("v1")).front();
  EXPECT_THAT(change("move vf v1 of=h3"), HasSubstr("not 0x8005"));
  EXPECT_THAT(change("move vf v1 of=h1"), HasSubstr("already"));
  EXPECT_EQ(tables().port(port("v1")).state, PortState::Active);
  ASSERT_EQ(change("move vf v1 of=h2"), "");
  EXPECT_THAT(tables().pkeys(port("v1")), ElementsAre(PKey{0x8005}));
  EXPECT_EQ(tables().port(port("v1")).state, PortState::Active);
  EXPECT_EQ(tables().port(port("v1")).lid, tables().port(port("h2")).lid);
  EXPECT_THAT(tables().gids(port("v1")), ElementsAre(gid));
  EXPECT_THAT(tables().gids(port("h2")), ElementsAre(::testing::_, gid));
  EXPECT_NE(tables().gids(port("h1")).back(), gid);
  EXPECT_EQ(change("remove h1"), "");  // nothing of it is left there
}

TEST_F(VirtualFunctions, HavePKeysThatAreNamedByTheKey) {
  fabric::Topology topology = *fabric::generate_star(2);
  topology.hosts[0].hcas[0].ports[0].pkeys = {kDefaultPKey, PKey{0x8005}};
  made_ = std::move(*Fabric::create(topology, now_));
  settle();
  ASSERT_EQ(change("add vf v1 of=h1 pkeys=0x8005"), "");
  EXPECT_THAT(tables().pkeys(port("v1")), ElementsAre(PKey{0x8005}));
  ASSERT_EQ(change("set vf v1 pkeys=0xffff,0x8005"), "");
  EXPECT_THAT(tables().pkeys(port("v1")), ElementsAre(kDefaultPKey, PKey{0x8005}));
  EXPECT_THAT(change("set vf v1 pkeys=1,0x8005"), HasSubstr("entry 1"));  // which is the same
  EXPECT_THAT(change("set vf v1 pkeys=0x8000"), HasSubstr("a key as 0x8005"));
  EXPECT_THAT(change("set vf v1 pkeys=0x18005"), HasSubstr("a key as 0x8005"));
  EXPECT_THAT(tables().pkeys(port("v1")), ElementsAre(kDefaultPKey, PKey{0x8005}));
}

TEST_F(VirtualFunctions, HaveEachEntryOnce) {
  EXPECT_THAT(change("add vf v1 of=h1 pkeys=0,0"), HasSubstr("pkeys=ENTRY"));
  std::string many = "add vf v1 of=h1 pkeys=0";  // more than a table may have
  for (std::uint32_t i = 0; i < fabric::kMaxPKeysPerPort; ++i) {
    many += ",0";
  }
  EXPECT_THAT(change(many), HasSubstr("pkeys=ENTRY"));
  EXPECT_FALSE(tables().find_node("v1"));
}

TEST_F(VirtualFunctions, HaveOtherPKeysAndQuotasWhenTheyAreSet) {
  fabric::Topology topology = *fabric::generate_star(2);
  topology.hosts[0].hcas[0].ports[0].pkeys = {kDefaultPKey, PKey{0x8005}};
  made_ = std::move(*Fabric::create(topology, now_));
  settle();
  ASSERT_EQ(change("add vf v1 of=h1 pkeys=1 mads=7"), "");
  EXPECT_THAT(tables().pkeys(port("v1")), ElementsAre(PKey{0x8005}));
  ASSERT_EQ(change("set vf v1 pkeys=1,0 groups=2"), "");
  EXPECT_THAT(tables().pkeys(port("v1")), ElementsAre(PKey{0x8005}, kDefaultPKey));
  const auto& described = fabric().management().shared_ports().description_of(port("v1"));
  EXPECT_EQ(described.quotas, (fabric::FunctionQuotas{.mads_per_second = 7, .groups = 2}));
  ASSERT_EQ(change("set vf v1 mads=0"), "");
  EXPECT_EQ(described.quotas, (fabric::FunctionQuotas{.groups = 2}));
  EXPECT_THAT(change("set vf v1 pkeys=2"), HasSubstr("the entries 0 to 1"));
  EXPECT_THAT(change("set vf v1 mads=some"), HasSubstr("mads=N"));
  EXPECT_THAT(change("set vf h2 mads=5"), HasSubstr("no virtual function"));
  EXPECT_THAT(change("set vf v1 link=s1:1"), HasSubstr("QUOTA"));
}

TEST_F(VirtualFunctions, AreGivenAPortLaterAndLoseItAgain) {
  fabric::Topology topology = *fabric::generate_star(3);
  topology.hosts[0].hcas[0].ports[0].pkeys = {kDefaultPKey, PKey{0x8005}};
  topology.hosts[1].hcas[0].ports[0].pkeys = {kDefaultPKey, PKey{0x8006}, PKey{0x8005}};
  made_ = std::move(*Fabric::create(topology, now_));
  settle();
  ASSERT_EQ(change("add vf v1 pkeys=0x8005 mads=7"), "");
  const PortIndex v1 = port("v1");
  EXPECT_THAT(fabric().unassigned_functions(), ElementsAre(v1));
  EXPECT_EQ(tables().port(v1).state, PortState::Down);
  ASSERT_EQ(change("set vf v1 groups=2"), "");
  const auto attached = fabric().attach("v1", now_);
  ASSERT_FALSE(attached);
  for (const std::string& refusal :
       {attached.error().reason, change("unassign vf v1"), change("move vf v1 of=h1")}) {
    EXPECT_THAT(refusal, HasSubstr("`weft vf assign h1:1 v1` gives it one"));
  }
  EXPECT_THAT(change("assign vf v1 of=h3"), HasSubstr("not 0x8005"));
  EXPECT_THAT(change("assign vf h2 of=h3"), HasSubstr("no virtual function"));

  for (const std::string_view host : {"h1", "h2"}) {
    ASSERT_EQ(change("assign vf v1 of=" + std::string{host}), "");
    settle();
    EXPECT_THAT(fabric().unassigned_functions(), ElementsAre());
    EXPECT_EQ(tables().port(v1).state, PortState::Active);
    EXPECT_EQ(tables().port(v1).lid, tables().port(port(host)).lid);
    EXPECT_THAT(tables().pkeys(v1), ElementsAre(PKey{0x8005}));
    EXPECT_EQ(fabric().management().shared_ports().description_of(v1).quotas,
              (fabric::FunctionQuotas{.mads_per_second = 7, .groups = 2}));
    EXPECT_THAT(change("assign vf v1 of=h3"), HasSubstr("`weft vf migrate v1 h3`"));
    const auto program = fabric().attach("v1", now_);
    ASSERT_TRUE(program);
    EXPECT_THAT(change("unassign vf v1"), HasSubstr("1 programs run on v1"));
    static_cast<void>(fabric().detach(*program, now_));
    ASSERT_EQ(change("unassign vf v1"), "");
    EXPECT_EQ(tables().port(v1).state, PortState::Down);
    EXPECT_EQ(tables().port(v1).lid, Lid{});
    EXPECT_EQ(tables().gids(port(host)).size(), 1U) << "SA has deleted its GUID";
    EXPECT_TRUE(tables().slot_loans().empty());
  }
  EXPECT_EQ(change("remove h1"), "") << "it has no functions";
  EXPECT_EQ(change("remove v1"), "");
  EXPECT_THAT(fabric().unassigned_functions(), ElementsAre());
}

TEST_F(VirtualFunctions, GoAndWithdrawTheirGid) {
  ASSERT_EQ(change("add vf v1 of=h1"), "");
  EXPECT_THAT(change("remove h1"), HasSubstr("virtual functions, v1 among them"));
  ASSERT_EQ(change("remove v1"), "");
  EXPECT_EQ(tables().gids(port("h1")).size(), 1U);
  EXPECT_FALSE(tables().find_node("v1"));
  ASSERT_EQ(change("add vf v1 of=h1"), "");
  EXPECT_EQ(tables().port(port("v1")).state, PortState::Active);
  ASSERT_EQ(change("remove v1"), "");
  EXPECT_EQ(change("remove h1"), "");
}

TEST_F(VirtualFunctions, AreAtMost247OfAPort) {
  for (std::uint32_t i = 1; i < 32; ++i) {
    ASSERT_EQ(change("add vf v" + std::to_string(i) + " of=h1"), "");
  }
  EXPECT_EQ(fabric().management().agents().guid_cap(port("h1")), agents::kGuidCap);
  for (std::uint32_t i = 32; i <= fabric::kMostVirtualFunctions; ++i) {
    ASSERT_TRUE(
        fabric().change_node(*read_node_change("add vf v" + std::to_string(i) + " of=h1"), now_));
  }
  for (int i = 0; i < 4; ++i) {
    settle();  // the manager learns that GUIDInfo has more room, and SA declines until then
  }
  for (const std::string_view last : {"v1", "v31", "v32", "v127", "v128", "v247"}) {
    EXPECT_EQ(tables().port(port(last)).state, PortState::Active) << last;
    EXPECT_EQ(tables().port(port(last)).lid, tables().port(port("h1")).lid) << last;
  }
  EXPECT_EQ(tables().gids(port("h1")).size(), 248U);
  EXPECT_EQ(fabric().management().agents().guid_cap(port("h2")), agents::kGuidCap);
  EXPECT_THAT(change("add vf v248 of=h1"), HasSubstr("no room for a virtual function"));
  EXPECT_EQ(change("add vf v248 of=h2"), "");
}

TEST_F(VirtualFunctions, BorrowSlotsAsTheirProgramsNeedThem) {
  ASSERT_EQ(change("add vf v1 of=h1"), "");
  ASSERT_EQ(change("add vf v2 of=h1"), "");
  const auto has = [&](std::string_view host) {
    return std::ranges::count(tables().slot_loans(), port(host), &fabric::SlotLoanRecord::borrower);
  };
  EXPECT_TRUE(fabric().take_slots_changed());
  EXPECT_EQ(has("v1"), 1);
  std::vector<ProcessId> programs;
  for (std::uint32_t i = 0; i < fabric::kMostProgramsOfFunction; ++i) {
    programs.push_back(*fabric().attach("v1", now_));
    const std::vector<std::byte> image = fabric().next_tables();
    const auto view = fabric::TablesView::open(image);
    ASSERT_TRUE(view);
    const Qpn qpn = first_qpn_of(programs.back().slot);
    EXPECT_EQ(fabric::port_of_qp(*view, tables().port(port("h1")).lid, qpn), port("v1")) << i;
    // A block ahead: what the next program will have is in the tables before it is there.
    EXPECT_EQ(has("v1"), (i + 1) / fabric::kSlotsPerLoan + 1) << i;
  }
  EXPECT_TRUE(fabric().take_slots_changed());
  const auto refused = fabric().attach("v1", now_);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().reason, HasSubstr("v1 has 32 programs, as many as"));
  EXPECT_TRUE(fabric().attach("v2", now_));
  for (const ProcessId& program : programs) {
    static_cast<void>(fabric().detach(program, now_));
  }
  EXPECT_EQ(has("v1"), 9) << "what it does not use stays until others need it";
  EXPECT_EQ(has("v2"), 1);
}

TEST_F(VirtualFunctions, GiveBackWhatOthersNeed) {
  ASSERT_EQ(change("add vf v1 of=h1"), "");
  std::vector<ProcessId> programs;
  for (std::uint32_t i = 0; i < fabric::kMostProgramsOfFunction; ++i) {
    programs.push_back(*fabric().attach("v1", now_));
  }
  const auto free_slots = kSlotCount - 1 - fabric::kMostProgramsOfFunction;  // one ahead included
  for (std::uint32_t i = 0; i < free_slots; ++i) {
    ASSERT_TRUE(fabric().attach("h1", now_)) << i;
  }
  EXPECT_FALSE(fabric().attach("h1", now_));
  for (const ProcessId& program : programs) {
    static_cast<void>(fabric().detach(program, now_));
  }
  EXPECT_FALSE(fabric().attach("h1", now_)) << "they rest";
  now_ = now_ + ProcessSlots::kSlotReuseDelay;
  const auto returned = fabric::kMostProgramsOfFunction - fabric::kSlotsPerLoan;
  for (std::uint32_t i = 0; i < returned; ++i) {
    ASSERT_TRUE(fabric().attach("h1", now_)) << i;
  }
  EXPECT_FALSE(fabric().attach("h1", now_)) << "a block stays";
  EXPECT_TRUE(fabric().attach("v1", now_));
}

TEST_F(VirtualFunctions, MoveWithTheQpnsOfTheirProgramsOrNotAtAll) {
  made_ = std::move(*Fabric::create(*fabric::generate_star(3), now_));
  settle();
  ASSERT_EQ(change("add vf v1 of=h1"), "");
  ASSERT_EQ(change("add vf v2 of=h2"), "");  // which has the same slots of h2
  const auto program = *fabric().attach("v1", now_);
  EXPECT_THAT(change("move vf v1 of=h2"), HasSubstr("the numbers of its QPs"));
  EXPECT_EQ(tables().port(port("v1")).state, PortState::Active);
  ASSERT_EQ(change("move vf v1 of=h3"), "");
  const std::vector<std::byte> image = fabric().next_tables();
  const auto view = fabric::TablesView::open(image);
  ASSERT_TRUE(view);
  const Qpn qpn = first_qpn_of(program.slot);
  EXPECT_EQ(fabric::port_of_qp(*view, tables().port(port("h3")).lid, qpn), port("v1"));
  EXPECT_EQ(fabric::port_of_qp(*view, tables().port(port("h1")).lid, qpn), port("h1"));
  static_cast<void>(fabric().detach(program, now_));
  EXPECT_EQ(change("move vf v1 of=h2"), "") << "without programs any slots will do";
  EXPECT_EQ(tables().slot_loans().size(), 2U);
  EXPECT_EQ(change("remove v1"), "");
  EXPECT_EQ(tables().slot_loans().size(), 1U);
}

TEST_F(VirtualFunctions, OfTheTopologyAreThereFromTheStart) {
  fabric::Topology topology = *fabric::generate_star(3);
  topology.hosts[1].hcas[0].functions = {{.name = "web"}, {.name = "store"}};
  topology.hosts[2].hcas[0].functions = {{.name = "h3v1"}};
  made_ = std::move(*Fabric::create(topology, now_));
  settle();
  for (const std::string_view name : {"web", "store", "h3v1"}) {
    EXPECT_EQ(tables().port(port(name)).state, PortState::Active) << name;
  }
  EXPECT_EQ(tables().port(port("web")).lid, tables().port(port("h2")).lid);
  EXPECT_THAT(fabric().management().shared_ports().functions_of(port("h2")),
              ElementsAre(port("web"), port("store")));
  EXPECT_EQ(change("add vf v1 of=h2"), "");
  EXPECT_THAT(change("add host web link=s1:1"), HasSubstr("has a node web already"));
}

TEST_F(VirtualFunctions, OfAPortWithoutACableCannotBe) {
  fabric::Topology topology = *fabric::generate_star(2);
  topology.hosts[0] = fabric::make_host("h1", 2, 1);
  topology.hosts[0].hcas[1].functions = {{.name = "v1"}};
  const auto refused = Fabric::create(topology, now_);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().reason, HasSubstr("virtual function v1: no cabled port h1/weft1:1"));
}

TEST_F(VirtualFunctions, ShareThePortOfAHostOnly) {
  EXPECT_THAT(change("add vf v1 of=s1:1"), HasSubstr("share the port of a host"));
  EXPECT_NE(change("add vf v1 of=h7"), "");
  EXPECT_THAT(change("add vf v1 of=h1 link=s1:7"), HasSubstr("no cable"));
  EXPECT_THAT(change("add vf h2 of=h1"), HasSubstr("has a node h2 already"));
}

TEST_F(VirtualFunctions, AreAsManyAsAreAskedForOrNone) {
  const fabric::HcaIndex hca = tables().port(port("h1")).hca;
  const auto ask = [&](std::uint32_t count) {
    const auto done = fabric().set_function_count(hca, count, now_);
    settle();
    return done ? std::string{} : done.error().reason;
  };
  const auto has = [&] { return fabric().management().shared_ports().functions_of_hca(hca); };
  ASSERT_EQ(change("add vf h1v2 of=h2"), "");  // whose name is taken
  ASSERT_EQ(ask(3), "");
  EXPECT_THAT(has(), ElementsAre(port("h1v1"), port("h1v3"), port("h1v4")));
  EXPECT_EQ(tables().port(port("h1v4")).state, PortState::Active);
  EXPECT_EQ(ask(3), "") << "as many as there are";
  EXPECT_THAT(ask(4), HasSubstr("there are 3 virtual functions already"));
  EXPECT_EQ(has().size(), 3U);
  ASSERT_TRUE(fabric().attach("h1v3", now_));
  EXPECT_EQ(ask(0), "") << "though a program runs there";
  EXPECT_TRUE(has().empty());
  EXPECT_TRUE(tables().find_node("h1v2"));
  EXPECT_EQ(ask(0), "");
  ASSERT_EQ(ask(2), "") << "the numbers of those before rest, and others are free";
  EXPECT_THAT(has(), ElementsAre(port("h1v1"), port("h1v3")));
  EXPECT_EQ(tables().port(port("h1v1")).state, PortState::Active);
}

TEST_F(VirtualFunctions, AreNotLeftByHalfWhereThereIsNoRoomForAll) {
  const fabric::HcaIndex hca = tables().port(port("h1")).hca;
  const auto nodes = tables().nodes().size();
  const auto refused = fabric().set_function_count(hca, fabric::kMostVirtualFunctions + 1, now_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::OutOfMemory);
  EXPECT_GT(tables().nodes().size(), nodes) << "some were made";
  EXPECT_TRUE(fabric().management().shared_ports().functions_of_hca(hca).empty());
  EXPECT_FALSE(tables().find_node("h1v1"));
}

TEST_F(VirtualFunctions, AreThoseOfAnHcaInTheOrderInWhichTheyCame) {
  ASSERT_EQ(change("add vf v1 of=h1"), "");
  ASSERT_EQ(change("add vf v2 of=h1"), "");
  ASSERT_EQ(change("unassign vf v1"), "");
  ASSERT_EQ(change("assign vf v1 of=h1"), "");  // with another number
  const SharedPorts& shared = fabric().management().shared_ports();
  EXPECT_GT(shared.function_at(port("v1"))->number.value(),
            shared.function_at(port("v2"))->number.value());
  EXPECT_THAT(shared.functions_of_hca(tables().port(port("h1")).hca),
              ElementsAre(port("v1"), port("v2")));
}

TEST_F(VirtualFunctions, HaveTheGuidsThatTheyAreGiven) {
  const Guid node{0x0011'2233'4455'6600};
  const Guid guid{0x0011'2233'4455'6601};
  ASSERT_EQ(change("add vf v1 of=h1"), "");
  ASSERT_EQ(change("add vf v2 of=h1"), "");
  const Gid before = tables().gids(port("v1")).front();
  ASSERT_EQ(change("set vf v1 node_guid=0x0011223344556600 port_guid=0x0011223344556601"), "");
  const PortRecord& record = tables().port(port("v1"));
  EXPECT_EQ(tables().hcas()[record.hca.value()].guid, node);
  EXPECT_EQ(record.guid, guid);
  EXPECT_EQ(record.state, PortState::Active) << "SA knows it";
  EXPECT_EQ(tables().gids(port("v1")).front(), (Gid{before.prefix(), guid}));
  EXPECT_THAT(tables().gids(port("h1")), ::testing::Contains(Gid{before.prefix(), guid}));
  EXPECT_THAT(tables().gids(port("h1")), ::testing::Not(::testing::Contains(before)));

  EXPECT_THAT(change("set vf v2 port_guid=0x0011223344556601"), HasSubstr("v1 has the GUID"));
  EXPECT_THAT(change("set vf v2 node_guid=0x0011223344556600"), HasSubstr("v1 has the GUID"));
  EXPECT_EQ(change("set vf v1 port_guid=0x0011223344556601"), "") << "its own";
  const auto program = fabric().attach("v1", now_);
  ASSERT_TRUE(program);
  EXPECT_THAT(change("set vf v1 port_guid=0x0011223344556602"), HasSubstr("1 programs run on v1"));
  EXPECT_EQ(change("set vf v1 mads=5"), "");
  EXPECT_EQ(tables().port(port("v1")).guid, guid);
}

TEST_F(VirtualFunctions, TakeOverTheGuidOfOneThatIsGone) {
  const Guid guid{0x0011'2233'4455'6601};
  ASSERT_EQ(change("add vf v1 of=h1"), "");
  ASSERT_EQ(change("add vf v2 of=h1"), "");  // later in the tables
  ASSERT_EQ(change("set vf v2 port_guid=0x0011223344556601"), "");
  ASSERT_EQ(change("remove v2"), "");
  ASSERT_EQ(change("set vf v1 port_guid=0x0011223344556601"), "");
  EXPECT_EQ(tables().port(port("v1")).state, PortState::Active);
  const std::vector<std::byte> image = fabric().next_tables();
  const auto view = fabric::TablesView::open(image);
  ASSERT_TRUE(view);
  EXPECT_EQ(view->owner_of(Gid{kDefaultGidPrefix, guid}), port("v1"));
}

TEST_F(VirtualFunctions, WithoutAPortHaveTheirGuidsAndPolicyToo) {
  ASSERT_EQ(change("add vf v1 policy=down"), "");
  ASSERT_EQ(change("set vf v1 port_guid=0x0011223344556601"), "");
  ASSERT_EQ(change("assign vf v1 of=h1"), "");
  EXPECT_EQ(tables().port(port("v1")).state, PortState::Down);
  ASSERT_EQ(change("unassign vf v1"), "");
  ASSERT_EQ(change("set vf v1 policy=follow"), "");
  ASSERT_EQ(change("assign vf v1 of=h2"), "");
  EXPECT_EQ(tables().port(port("v1")).state, PortState::Active);
  EXPECT_THAT(tables().gids(port("v1")),
              ElementsAre(Gid{kDefaultGidPrefix, Guid{0x0011'2233'4455'6601}}));
}

TEST_F(VirtualFunctions, AreTrustedWhereverTheyAre) {
  ASSERT_EQ(change("add vf v1 trust=on"), "");
  ASSERT_EQ(change("assign vf v1 of=h1"), "");
  EXPECT_TRUE(tables().port(port("v1")).is_trusted());
  ASSERT_EQ(change("move vf v1 of=h2"), "");
  EXPECT_TRUE(tables().port(port("v1")).is_trusted());
  ASSERT_EQ(change("unassign vf v1"), "");
  ASSERT_EQ(change("assign vf v1 of=h1"), "");
  EXPECT_TRUE(tables().port(port("v1")).is_trusted());
  ASSERT_EQ(change("set vf v1 groups=8"), "");
  EXPECT_TRUE(tables().port(port("v1")).is_trusted());
  ASSERT_EQ(change("set vf v1 trust=off"), "");
  EXPECT_FALSE(tables().port(port("v1")).is_trusted());
  ASSERT_EQ(change("add vf v2 of=h1"), "");
  EXPECT_FALSE(tables().port(port("v2")).is_trusted());
}

TEST_F(VirtualFunctions, AreDownOrUpByTheirPolicy) {
  ASSERT_EQ(change("add vf v1 of=h2"), "");
  const auto state = [&] { return tables().port(port("v1")).state; };
  ASSERT_EQ(change("set vf v1 policy=down"), "");
  EXPECT_EQ(state(), PortState::Down);
  ASSERT_EQ(change("set vf v1 policy=up"), "");
  EXPECT_EQ(state(), PortState::Active);
  ASSERT_TRUE(fabric().change_port(port("h2"), {.is_plugged = false, .settings = {}}, now_));
  settle();
  EXPECT_EQ(state(), PortState::Initialize);
  ASSERT_EQ(change("set vf v1 policy=follow"), "");
  EXPECT_EQ(state(), PortState::Down);
  ASSERT_TRUE(fabric().change_port(port("h2"), {.is_plugged = true, .settings = {}}, now_));
  settle();
  EXPECT_EQ(state(), PortState::Active);
  EXPECT_EQ(fabric().management().shared_ports().description_of(port("v1")).policy,
            verbs::PortPolicy::Follow);
}

}  // namespace
}  // namespace weft::node
