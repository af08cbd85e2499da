#include "node/shared_ports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/process_slot.h"
#include "fabric/testing/running_fabric.h"
#include "wire/mad/mad.h"

namespace weft::node {
namespace {

using fabric::PortIndex;
using fabric::PortState;
using mad::InterfaceKind;
using sriov::FunctionId;
using ::testing::ElementsAre;

constexpr Instant kNow{Duration::seconds(1)};

/// Functions v1 and v2 of h1's port; SA is the test.
class SharedPortsOfTables : public ::testing::Test {
 protected:
  SharedPortsOfTables() {
    fabric::Topology topology = *fabric::generate_star(2);
    for (const char* const name : {"v1", "v2"}) {
      topology.hosts.push_back(fabric::make_host(name, 1, 1));
      fabric.builder.grow(topology, {});
    }
    fabric.publish();
    fabric.builder.set_subnet_manager(port("h1"), fabric.lid("h2"), ServiceLevel{});
  }
  [[nodiscard]] PortIndex port(std::string_view node) const { return fabric.port(node, 1); }
  [[nodiscard]] PortState state(std::string_view node) const {
    return fabric.builder.port(port(node)).state;
  }
  void add(std::string_view name, std::uint16_t number) {
    ASSERT_TRUE(shared.add(port("h1"), port(name), FunctionId{number}, {}, kNow));
    shared.run(kNow);
  }
  /// Answers each request with what was asked.
  void let_sa_answer() {
    for (const auto& [from, packet] : std::exchange(sent, {})) {
      mad::MadBytes answer = packet.bytes;
      auto header = header_of(answer);
      header.method = header.method == wire::MadMethod::Delete ? wire::MadMethod::DeleteResp
                                                               : wire::MadMethod::GetResp;
      std::ranges::copy(wire::pack(header), answer.begin());
      EXPECT_TRUE(
          shared.receive(from, InterfaceKind::Gsi, {.lid = packet.address.lid}, answer, kNow));
    }
    shared.run(kNow);
  }
  static wire::MadHeader header_of(const mad::MadBytes& mad) {
    return wire::unpack<wire::MadHeader>(std::span{mad}.first<wire::kSizeOf<wire::MadHeader>>());
  }

  fabric::testing::RunningFabric fabric{*fabric::generate_star(2)};
  std::vector<std::pair<PortIndex, mad::MadPacket>> sent;
  std::vector<PortIndex> delivered;
  SharedPorts shared{
      fabric.builder,
      {.send = [this](PortIndex from, const mad::MadPacket& mad) { sent.emplace_back(from, mad); },
                .deliver = [this](PortIndex at, const mad::MadAddress& /*source*/,
                const mad::MadBytes& /*mad*/) { delivered.push_back(at); }}
  };
};

TEST_F(SharedPortsOfTables, WriteTheFunctionsPortWhenSaHasItsGuid) {
  EXPECT_TRUE(shared.empty());
  add("v1", 1);
  EXPECT_EQ(fabric.builder.port(port("v1")).lid, fabric.lid("h1"));
  EXPECT_EQ(state("v1"), PortState::Initialize);
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent.front().first, port("h1"));
  EXPECT_EQ(sent.front().second.address.lid, fabric.lid("h2"));
  let_sa_answer();
  EXPECT_EQ(state("v1"), PortState::Active);
  EXPECT_THAT(fabric.builder.gids(port("v1")),
              ElementsAre(Gid{kDefaultGidPrefix, fabric.builder.port(port("v1")).guid}));
  EXPECT_TRUE(shared.take_tables_changed());
  EXPECT_FALSE(shared.take_tables_changed());
}

TEST_F(SharedPortsOfTables, FollowThePhysicalPort) {
  add("v1", 1);
  let_sa_answer();
  EXPECT_GT(shared.deadline(), kNow);
  fabric.builder.set_state(port("h1"), PortState::Down);
  EXPECT_EQ(shared.deadline(), Instant{});  // at once
  shared.run(kNow);
  EXPECT_EQ(state("v1"), PortState::Down);
  fabric.builder.set_state(port("h1"), PortState::Active);
  shared.run(kNow);
  EXPECT_EQ(state("v1"), PortState::Active);
}

TEST_F(SharedPortsOfTables, SayWhoseAPortIs) {
  add("v1", 1);
  add("v2", 2);
  EXPECT_THAT(shared.functions_of(port("h1")), ElementsAre(port("v1"), port("v2")));
  EXPECT_EQ(shared.physical_of(port("v2")), port("h1"));
  EXPECT_EQ(shared.physical_of(port("h2")), port("h2"));
  EXPECT_FALSE(shared.function_at(port("h1")));
  EXPECT_EQ(shared.function_at(port("v2"))->number, FunctionId{2});
  EXPECT_FALSE(shared.may_add(port("h1"), FunctionId{1}, kNow));
  EXPECT_TRUE(shared.may_add(port("h1"), FunctionId{3}, kNow));
  shared.remove(port("v1"), kNow);
  EXPECT_THAT(shared.functions_of(port("h1")), ElementsAre(port("v2")));
  EXPECT_FALSE(shared.may_add(port("h1"), FunctionId{1}, kNow));  // its MADs may be under way
}

TEST_F(SharedPortsOfTables, MoveAFunctionWithItsGuidToAnotherPort) {
  add("v1", 1);
  add("v2", 2);
  let_sa_answer();
  let_sa_answer();
  const Guid guid = fabric.builder.port(port("v1")).guid;
  fabric.builder.set_subnet_manager(port("h2"), fabric.lid("h1"), ServiceLevel{});
  fabric::FunctionDescription wanted = shared.description_of(port("v1"));
  wanted.quotas.groups = 7;
  const SharedPorts::Function to{.physical = port("h2"), .number = FunctionId{4}};
  const auto lost = shared.move(port("v1"), to, wanted, kNow);
  ASSERT_TRUE(lost) << lost.error().reason;
  EXPECT_EQ(*lost, 0U);
  ASSERT_EQ(sent.size(), 1U);  // SA declines a GUID that two ports have
  EXPECT_EQ(sent[0].first, port("h1"));
  EXPECT_EQ(header_of(sent[0].second.bytes).method, wire::MadMethod::Delete);
  shared.run(kNow);
  EXPECT_EQ(sent.size(), 1U);
  EXPECT_LE(shared.deadline(), kNow + Duration::seconds(2));  // if it is not answered
  let_sa_answer();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].first, port("h2"));
  EXPECT_EQ(header_of(sent[0].second.bytes).method, wire::MadMethod::Set);
  EXPECT_EQ(fabric.builder.port(port("v1")).lid, fabric.lid("h2"));
  EXPECT_EQ(state("v1"), PortState::Initialize);
  let_sa_answer();
  EXPECT_EQ(state("v1"), PortState::Active);
  EXPECT_THAT(fabric.builder.gids(port("v1")), ElementsAre(Gid{kDefaultGidPrefix, guid}));
  EXPECT_EQ(state("v2"), PortState::Active);
  EXPECT_THAT(shared.functions_of(port("h1")), ElementsAre(port("v2")));
  EXPECT_THAT(shared.functions_of(port("h2")), ElementsAre(port("v1")));
  EXPECT_EQ(shared.function_at(port("v1"))->number, FunctionId{4});
  EXPECT_EQ(shared.description_of(port("v1")).quotas.groups, 7U);
  EXPECT_EQ(shared.shared_port(port("h2")).multiplexer().groups().limit_of(FunctionId{4}), 7U);
  // What the other port has it may be told of; what the old port gets for it is nobody's.
  EXPECT_FALSE(shared.may_add(port("h1"), FunctionId{1}, kNow));
}

TEST_F(SharedPortsOfTables, StayWhereTheyAreIfTheyCannotMove) {
  add("v1", 1);
  let_sa_answer();
  fabric::FunctionDescription wanted = shared.description_of(port("v1"));
  const auto refused = [&](std::uint16_t number, std::vector<std::uint16_t> pkeys) {
    wanted.pkeys = std::move(pkeys);
    const auto moved = shared.move(
        port("v1"), {.physical = port("h2"), .number = FunctionId{number}}, wanted, kNow);
    return !moved && moved.error().code == ErrorCode::InvalidArgument;
  };
  EXPECT_TRUE(refused(0, {0}));
  EXPECT_TRUE(refused(1, {9}));
  shared.run(kNow);
  EXPECT_TRUE(sent.empty());
  EXPECT_EQ(state("v1"), PortState::Active);
  EXPECT_THAT(shared.functions_of(port("h1")), ElementsAre(port("v1")));
}

TEST_F(SharedPortsOfTables, LeaveMadsOfOtherPortsAndOfThePhysicalQp0Alone) {
  add("v1", 1);
  let_sa_answer();
  const mad::MadPacket packet{};
  EXPECT_FALSE(shared.send(port("h2"), InterfaceKind::Gsi, packet, kNow));
  EXPECT_FALSE(shared.send(port("h1"), InterfaceKind::Smi, packet, kNow));
  EXPECT_FALSE(shared.receive(port("h2"), InterfaceKind::Gsi, {}, packet.bytes, kNow));
  EXPECT_FALSE(shared.receive(port("h1"), InterfaceKind::Smi, {}, packet.bytes, kNow));
  EXPECT_TRUE(shared.send(port("v1"), InterfaceKind::Smi, packet, kNow));  // which drops it
  EXPECT_TRUE(sent.empty());
  EXPECT_TRUE(delivered.empty());
}

TEST_F(SharedPortsOfTables, BringAnAnswerToTheFunctionThatAsked) {
  add("v1", 1);
  add("v2", 2);
  let_sa_answer();
  let_sa_answer();  // one request at a time
  std::vector<std::pair<PortIndex, FunctionId>> tunnelled;
  shared.set_tunnel_tap([&](PortIndex physical, const sriov::TunnelDatagram& mad) {
    tunnelled.emplace_back(physical, mad.function);
    EXPECT_EQ(slot_of(mad.source_qp), 0U);  // no program's
    EXPECT_EQ(slot_of(mad.dest_qp), 0U);
  });
  mad::MadPacket query;
  query.address = {.lid = fabric.lid("h2"), .qp = Qpn{1}, .pkey = kDefaultPKey};
  const wire::MadHeader header{.mgmt_class = wire::ManagementClass::SubnAdm,
                               .method = wire::MadMethod::Get,
                               .transaction_id = 7,
                               .attribute_id = 0x35};
  std::ranges::copy(wire::pack(header), query.bytes.begin());
  EXPECT_TRUE(shared.send(port("v2"), InterfaceKind::Gsi, query, kNow));
  EXPECT_TRUE(shared.send(port("v1"), InterfaceKind::Gsi, query, kNow));
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_NE(header_of(sent[0].second.bytes).transaction_id,
            header_of(sent[1].second.bytes).transaction_id);
  let_sa_answer();
  EXPECT_THAT(delivered, ElementsAre(port("v2"), port("v1")));
  const std::pair by_v1{port("h1"), FunctionId{1}};
  const std::pair by_v2{port("h1"), FunctionId{2}};
  EXPECT_THAT(tunnelled, ElementsAre(by_v2, by_v1, by_v2, by_v1));
  EXPECT_THAT(shared.physical_ports(), ElementsAre(port("h1")));
  const auto& counters = shared.shared_port(port("h1")).multiplexer().counters();
  EXPECT_EQ(counters.of(FunctionId{1}, sriov::Reason::Translated), 1U);
  EXPECT_EQ(counters.of(FunctionId{1}, sriov::Action::Deliver), 1U);
}

}  // namespace
}  // namespace weft::node
