#include "sriov/shared_port.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "sriov/testing/mads.h"
#include "wire/cm/req.h"

namespace weft::sriov {
namespace {

using mad::InterfaceKind;
using testing::header_of;
using testing::make_mad;
using wire::MadMethod;
using wire::ManagementClass;
using wire::SaAttribute;

constexpr Instant kStart{};
constexpr FunctionId kA{1};
constexpr FunctionId kB{2};
constexpr Lid kOwn{4};
constexpr Lid kManager{9};
constexpr std::uint64_t kForced = 7;

class SriovSharedPort : public ::testing::Test {
 protected:
  SriovSharedPort() { port.update(physical, kStart); }

  /// Answers what the port asks SA in its own name: the GUIDs of functions.
  void let_sa_answer() {
    while (const auto asked = port.poll_transmit(kStart)) {
      MadBytes answer = asked->bytes;
      wire::MadHeader header = header_of(answer);
      header.method = MadMethod::GetResp;
      std::ranges::copy(wire::pack(header), answer.begin());
      port.receive({.lid = kManager}, answer, kStart);
    }
  }
  void add(FunctionId function) {
    ASSERT_TRUE(port.add(function, {.guid = Guid{0x100U + function.value()}}, kStart).has_value());
    let_sa_answer();
    physical.gids.resize(3);
    physical.gids[function.value()] = *port.port_of(function).gid;
    port.update(physical, kStart);
  }
  static mad::MadPacket path_query() {
    return {.address = {.lid = kManager},
            .bytes = make_mad(ManagementClass::SubnAdm, MadMethod::Get,
                              static_cast<std::uint16_t>(SaAttribute::PathRecord), kForced)};
  }

  PhysicalPort physical{
      .state = verbs::PortState::Active,
      .lid = kOwn,
      .manager_lid = kManager,
      .pkeys = {kDefaultPKey, PKey{0x8001}},
      .gids = {Gid{kDefaultGidPrefix, Guid{0x10}}}
  };
  SharedPort port{{.port_guid = Guid{0x10}}, kStart};
};

TEST_F(SriovSharedPort, IsActiveForAFunctionWhenSaHasItsGuid) {  // part of T-SRI-6
  ASSERT_TRUE(port.add(kA, {.guid = Guid{0x101}}, kStart).has_value());
  EXPECT_EQ(port.port_of(kA).state, verbs::PortState::Initialize);
  EXPECT_EQ(port.port_of(kA).gid, std::nullopt);
  let_sa_answer();
  const VirtualPort seen = port.port_of(kA);
  EXPECT_EQ(seen.state, verbs::PortState::Active);
  EXPECT_EQ(seen.lid, kOwn);
  EXPECT_EQ(seen.gid, (Gid{kDefaultGidPrefix, Guid{0x101}}));
  EXPECT_EQ(seen.pkeys, std::vector{kDefaultPKey});
  physical.state = verbs::PortState::Down;
  port.update(physical, kStart);
  EXPECT_EQ(port.port_of(kA).state, verbs::PortState::Down);
}

TEST_F(SriovSharedPort, GivesAFunctionAnotherGuid) {
  add(kA);
  add(kB);
  ASSERT_EQ(port.port_of(kA).state, verbs::PortState::Active);
  ASSERT_TRUE(port.set_guid(kA, Guid{0x777}, kStart).has_value());
  EXPECT_EQ(port.port_of(kA).state, verbs::PortState::Initialize) << "SA does not know it yet";
  EXPECT_EQ(port.port_of(kA).gid, std::nullopt);
  let_sa_answer();
  EXPECT_EQ(port.port_of(kA).state, verbs::PortState::Active);
  EXPECT_EQ(port.port_of(kA).gid, (Gid{kDefaultGidPrefix, Guid{0x777}}));
  EXPECT_EQ(port.port_of(kB).gid, (Gid{kDefaultGidPrefix, Guid{0x102}}));
  EXPECT_FALSE(port.set_guid(FunctionId{9}, Guid{0x778}, kStart).has_value());
  EXPECT_FALSE(port.set_guid(kPhysicalFunction, Guid{0x778}, kStart).has_value());
}

TEST_F(SriovSharedPort, GivesFunctionsTheSubnetPrefixOfThePort) {
  constexpr std::uint64_t kPrefix = 0xFEC0'0000'0000'0001;
  add(kA);
  for (Gid& gid : physical.gids) {
    gid = Gid{kPrefix, gid.interface_id()};
  }
  port.update(physical, kStart);
  const Gid gid{kPrefix, Guid{0x101}};
  EXPECT_EQ(port.port_of(kA).gid, gid);
  wire::Req request;
  request.primary.remote_gid = gid;
  MadBytes mad = make_mad(ManagementClass::ComMgt, MadMethod::Send,
                          static_cast<std::uint16_t>(wire::CmAttribute::Req), kForced);
  std::ranges::copy(wire::pack(request), mad.begin() + wire::kSizeOf<wire::MadHeader>);
  port.receive({.lid = Lid{77}}, mad, kStart);
  const auto delivered = port.poll_receive();
  ASSERT_TRUE(delivered);
  EXPECT_EQ(delivered->function, kA);
}

TEST_F(SriovSharedPort, AsksSaOnlyWhileItIsActive) {
  add(kA);
  physical.state = verbs::PortState::Down;
  port.update(physical, kStart);
  // The manager asks for registration with the LID, before it makes the port Active.
  physical.state = verbs::PortState::Initialize;
  ++physical.reregistrations;
  port.update(physical, kStart);
  EXPECT_FALSE(port.poll_transmit(kStart).has_value());
  EXPECT_GT(port.poll_deadline(), kStart);
  physical.state = verbs::PortState::Active;
  port.update(physical, kStart);
  EXPECT_LE(port.poll_deadline(), kStart);
  let_sa_answer();
  EXPECT_EQ(port.port_of(kA).state, verbs::PortState::Active);
}

TEST_F(SriovSharedPort, AnswersGoToWhoAsked) {  // R-SRI-6
  add(kA);
  add(kB);
  std::vector<mad::MadPacket> asked;
  for (const FunctionId function : {kA, kB, kPhysicalFunction}) {
    port.send(function, InterfaceKind::Gsi, path_query(), kStart);
    asked.push_back(port.poll_transmit(kStart).value());
    EXPECT_EQ(asked.back().address, path_query().address);
  }
  std::ranges::reverse(asked);
  for (const FunctionId function : {kPhysicalFunction, kB, kA}) {
    MadBytes answer = asked.front().bytes;
    asked.erase(asked.begin());
    wire::MadHeader header = header_of(answer);
    header.method = MadMethod::GetResp;
    std::ranges::copy(wire::pack(header), answer.begin());
    port.receive({.lid = kManager}, answer, kStart);
    const auto came = port.poll_receive();
    ASSERT_TRUE(came.has_value());
    EXPECT_EQ(came->function, function);
    EXPECT_EQ(came->source.lid, kManager);
    EXPECT_EQ(header_of(came->bytes).transaction_id, kForced);
    EXPECT_EQ(port.poll_receive().has_value(), false);
  }
}

TEST_F(SriovSharedPort, AFunctionSendsByItsOwnGid) {  // R-SRI-4
  add(kA);
  add(kB);
  mad::MadPacket query = path_query();
  query.address.global = mad::GlobalRoute{
      .dgid = Gid{kDefaultGidPrefix, Guid{0x99}}
  };
  port.send(kB, InterfaceKind::Gsi, query, kStart);
  const auto sent = port.poll_transmit(kStart);
  ASSERT_TRUE(sent && sent->address.global);
  EXPECT_EQ(physical.gids.at(sent->address.global->sgid_index), port.port_of(kB).gid);
}

TEST_F(SriovSharedPort, ARequestGoesByTheGidThatItIsSentTo) {  // part of T-SRI-5
  add(kA);
  add(kB);
  wire::Req req{.local_communication_id = 1};
  req.primary.remote_gid = *port.port_of(kB).gid;
  const MadBytes mad = testing::make_cm(wire::CmAttribute::Req, req);
  port.receive({.lid = Lid{77}}, mad, kStart);
  EXPECT_EQ(port.poll_receive().value().function, kB);
  mad::MadAddress source{.lid = Lid{77}};
  source.global = mad::GlobalRoute{
      .dgid = Gid{kDefaultGidPrefix, Guid{0x99}},
        .sgid_index = 200
  };
  port.receive(source, path_query().bytes, kStart);  // to a GID that the port does not have
  EXPECT_EQ(port.poll_receive().has_value(), false);
}

TEST_F(SriovSharedPort, NothingLeavesAVirtualQp0OrByAForeignPKey) {  // part of T-SRI-2
  add(kA);
  mad::MadPacket smp{
      .address = {.lid = Lid{2}, .qp = kQp0},
      .bytes = make_mad(ManagementClass::SubnLidRouted, MadMethod::Get, 0x11, 1)
  };
  port.send(kA, InterfaceKind::Smi, smp, kStart);
  mad::MadPacket query = path_query();
  query.address.pkey = PKey{0x8001};  // the port's, not the function's
  port.send(kA, InterfaceKind::Gsi, query, kStart);
  EXPECT_EQ(port.poll_transmit(kStart).has_value(), false);
}

TEST_F(SriovSharedPort, ARemovedFunctionGetsNothingMore) {  // part of T-SRI-6
  add(kA);
  port.send(kA, InterfaceKind::Gsi, path_query(), kStart);
  MadBytes answer = port.poll_transmit(kStart).value().bytes;
  ASSERT_TRUE(port.remove(kA, kStart).has_value());
  wire::MadHeader header = header_of(answer);
  header.method = MadMethod::GetResp;
  std::ranges::copy(wire::pack(header), answer.begin());
  port.receive({.lid = kManager}, answer, kStart);
  EXPECT_EQ(port.poll_receive().has_value(), false);
  const auto withdrawn = port.poll_transmit(kStart);  // its GUID
  ASSERT_TRUE(withdrawn.has_value());
  EXPECT_EQ(header_of(withdrawn->bytes).method, MadMethod::Delete);
}

}  // namespace
}  // namespace weft::sriov
