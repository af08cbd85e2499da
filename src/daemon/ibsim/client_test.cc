// What libumad2sim relies on: unanswered requests are returned, TIDs are preserved, and a subnet
// manager receives the requests to it.

#include "daemon/ibsim/client.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "fabric/topology.h"
#include "node/management_plane.h"
#include "wire/mad/mad.h"

namespace weft::daemon {
namespace {

using wire::MadHeader;
using wire::MadMethod;
using wire::ManagementClass;

constexpr Lid kPermissive{0xFFFF};
constexpr std::uint64_t kTid = 0xABCD'0003'1234'5678;

IbsimPacket packet_of(ManagementClass mgmt_class, MadMethod method, Lid to,
                      std::uint64_t tid = kTid) {
  const bool is_smp = mgmt_class != ManagementClass::SubnAdm;
  IbsimPacket packet{.dlid_be = lid_to_ibsim(to), .dqp_be = swapped(is_smp ? 0U : 1U)};
  packet.length_be = swapped(std::uint64_t{packet.mad.size()});
  const MadHeader header{.mgmt_class = mgmt_class,
                         .class_version = static_cast<std::uint8_t>(is_smp ? 1 : 2),
                         .method = method,
                         .transaction_id = tid,
                         .attribute_id = 0x11};  // NodeInfo
  copy_bytes(packet.mad, wire::pack(header));
  if (mgmt_class == ManagementClass::SubnDirectedRoute) {
    std::fill_n(packet.mad.begin() + 32, 4, std::byte{0xFF});  // DrSLID, DrDLID
  }
  return packet;
}

MadHeader header_in(const IbsimPacket& packet) {
  return wire::unpack<MadHeader>(std::span{packet.mad}.first<wire::kSizeOf<MadHeader>>());
}

class IbsimClientTest : public ::testing::Test {
 protected:
  IbsimClientTest() {
    builder.set_lid(kH1, Lid{1}, 0);
    builder.set_lid(kH2, Lid{2}, 0);
    builder.set_link_state(kH1, fabric::PortState::Active);
  }
  node::UmadPortAccess access(fabric::PortIndex port) {
    return {.smi = plane.port(port).smi(),
            .gsi = plane.port(port).gsi(),
            .tables = builder,
            .port = port};
  }
  bool send(IbsimClient& client, const IbsimPacket& packet) {
    const bool taken = client.handle(write_ibsim(packet), now);
    run_for(Duration{});
    return taken;
  }
  void run_for(Duration span) {
    const Instant end = now + span;
    for (const fabric::PortIndex port : {kH1, kH2}) {
      plane.wake(port);
    }
    while (plane.run(now) || plane.deadline() <= end) {
      now = std::max(now, plane.deadline());
    }
    now = end;
  }

  static constexpr fabric::PortIndex kH1{0};
  static constexpr fabric::PortIndex kH2{1};
  fabric::TablesBuilder builder{*fabric::generate("pair")};
  node::ManagementPlane plane{builder};
  Instant now{Duration::seconds(1)};
  IbsimClient one{access(kH1)};
  IbsimClient two{access(kH2)};
};

TEST_F(IbsimClientTest, AnswersHaveTheTidAsTheProgramSentIt) {
  ASSERT_TRUE(
      send(one, packet_of(ManagementClass::SubnDirectedRoute, MadMethod::Get, kPermissive)));
  const auto answer = one.poll();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status_be, 0U);
  EXPECT_EQ(swapped(answer->length_be), 256U);
  EXPECT_EQ(header_in(*answer).method, MadMethod::GetResp);
  EXPECT_EQ(header_in(*answer).transaction_id, kTid);
  EXPECT_FALSE(one.poll());
  EXPECT_EQ(one.open_requests(), 0U);
}

TEST_F(IbsimClientTest, RequestsThatNobodyAnswersComeBack) {
  ASSERT_TRUE(send(one, packet_of(ManagementClass::SubnLidRouted, MadMethod::Get, Lid{77})));
  EXPECT_FALSE(one.poll());
  EXPECT_EQ(one.open_requests(), 1U);
  run_for(Duration::milliseconds(IbsimClient::kSmpTimeoutMs + 1));
  const auto back = one.poll();
  ASSERT_TRUE(back);
  EXPECT_EQ(swapped(back->status_be), static_cast<std::uint32_t>(ETIMEDOUT));
  EXPECT_EQ(header_in(*back).transaction_id, kTid);
  EXPECT_EQ(header_in(*back).mgmt_class, ManagementClass::SubnLidRouted);
  EXPECT_EQ(one.open_requests(), 0U);
}

TEST_F(IbsimClientTest, ARequestThatIsSaidAgainIsAskedOnce) {
  const auto request = packet_of(ManagementClass::SubnAdm, MadMethod::Get, Lid{2});
  ASSERT_TRUE(two.set_sm(true, now));
  ASSERT_TRUE(send(one, request));
  ASSERT_TRUE(send(one, request));
  EXPECT_TRUE(two.poll());
  EXPECT_FALSE(two.poll());
  EXPECT_EQ(one.open_requests(), 1U);
}

TEST_F(IbsimClientTest, AnSmHasTheRequestsOfOthersAndItsAnswersArrive) {
  ASSERT_TRUE(two.set_sm(true, now));
  EXPECT_TRUE(two.is_sm());
  ASSERT_TRUE(send(one, packet_of(ManagementClass::SubnAdm, MadMethod::GetTable, Lid{2})));
  auto asked = two.poll();
  ASSERT_TRUE(asked);
  EXPECT_EQ(lid_from_ibsim(asked->slid_be), Lid{1});
  EXPECT_EQ(swapped(asked->sqp_be), 1U);
  EXPECT_EQ(header_in(*asked).method, MadMethod::GetTable);

  MadHeader header = header_in(*asked);
  header.method = MadMethod::GetTableResp;
  copy_bytes(asked->mad, wire::pack(header));
  std::swap(asked->dlid_be, asked->slid_be);
  std::swap(asked->dqp_be, asked->sqp_be);
  ASSERT_TRUE(send(two, *asked));
  const auto answer = one.poll();
  ASSERT_TRUE(answer);
  EXPECT_EQ(header_in(*answer).method, MadMethod::GetTableResp);
  EXPECT_EQ(header_in(*answer).transaction_id, kTid);
}

TEST_F(IbsimClientTest, OnlyOneOfAPortIsTheSubnetManager) {
  IbsimClient second{access(kH1)};
  ASSERT_TRUE(one.set_sm(true, now));
  EXPECT_TRUE(one.set_sm(true, now));
  EXPECT_FALSE(second.set_sm(true, now));
  EXPECT_FALSE(second.is_sm());
  ASSERT_TRUE(one.set_sm(false, now));
  EXPECT_TRUE(second.set_sm(true, now));
}

TEST_F(IbsimClientTest, DatagramsOfAnotherSizeAreNone) {
  const auto bytes = write_ibsim(packet_of(ManagementClass::SubnLidRouted, MadMethod::Get, Lid{2}));
  EXPECT_FALSE(one.handle({}, now));
  EXPECT_FALSE(one.handle(ByteSpan{bytes}.first(bytes.size() - 1), now));
  EXPECT_EQ(one.open_requests(), 0U);
}

TEST_F(IbsimClientTest, LengthsAndNumbersBeyondReasonAreCut) {
  auto packet = packet_of(ManagementClass::SubnDirectedRoute, MadMethod::Get, kPermissive);
  packet.length_be = ~std::uint64_t{0};
  packet.dqp_be = packet.sqp_be = packet.status_be = packet.slid_be = ~0U;
  EXPECT_TRUE(send(one, packet));
  EXPECT_TRUE(one.poll());
  packet.length_be = swapped(std::uint64_t{24});  // a header alone comes back
  EXPECT_TRUE(send(one, packet));
  const auto back = one.poll();
  ASSERT_TRUE(back);
  EXPECT_EQ(swapped(back->status_be), static_cast<std::uint32_t>(EINVAL));
  packet.length_be = swapped(std::uint64_t{23});
  EXPECT_FALSE(send(one, packet));
  EXPECT_EQ(one.open_requests(), 0U);
}

TEST_F(IbsimClientTest, AProgramHasSoManyRequestsOpen) {
  auto packet = packet_of(ManagementClass::SubnLidRouted, MadMethod::Get, Lid{77});
  for (std::uint32_t i = 0; i < IbsimClient::kMaxOpen; ++i) {
    packet = packet_of(ManagementClass::SubnLidRouted, MadMethod::Get, Lid{77}, kTid + i);
    ASSERT_TRUE(one.handle(write_ibsim(packet), now));
  }
  packet = packet_of(ManagementClass::SubnLidRouted, MadMethod::Get, Lid{77}, kTid - 1);
  EXPECT_FALSE(one.handle(write_ibsim(packet), now));
}

}  // namespace
}  // namespace weft::daemon
