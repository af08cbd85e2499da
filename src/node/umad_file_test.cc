// What programs rely on of an open umad device (the kernel's user_mad).

#include "node/umad_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <span>

#include "fabric/topology.h"
#include "mad/testing/network.h"

namespace weft::node {
namespace {

using mad::registration_of;
using mad::request_of;
using wire::MadMethod;
using wire::ManagementClass;

constexpr Lid kHere{1};
constexpr Lid kThere{2};
constexpr std::uint8_t kSa = 0x03;
constexpr std::uint8_t kPerf = 0x04;

/// An HCA port with its interfaces on two networks, one for QP0 and one for QP1.
struct End {
  End(mad::TestNetwork& smps, mad::TestNetwork& gmps, Lid lid, const fabric::TablesBuilder& tables,
      fabric::PortIndex port)
      : access{.smi = smi, .gsi = gsi, .tables = tables, .port = port} {
    smps.attach(lid, smi);
    gmps.attach(lid, gsi);
  }
  mad::ManagementInterface smi{mad::InterfaceKind::Smi};
  mad::ManagementInterface gsi{mad::InterfaceKind::Gsi};
  UmadPortAccess access;
};

class UmadFileTest : public ::testing::Test {
 protected:
  static UmadRegistration of_class(std::uint8_t mgmt_class, mad::MethodSet methods = {}) {
    const std::uint8_t version = mgmt_class == kSa ? 2 : 1;
    return {.mgmt_class = mgmt_class,
            .class_version = version,
            .rmpp_version = static_cast<std::uint8_t>(mgmt_class == kSa ? 1 : 0),
            .oui = 0x1405,
            .methods = methods};
  }
  static std::vector<std::byte> mad_of(ManagementClass mgmt_class, MadMethod method,
                                       std::uint64_t tid = 0x1234'5678) {
    mad::MadMessage message = request_of(mgmt_class, method);
    wire::MadHeader header = message.header();
    header.transaction_id = tid;
    message.set_header(header);
    return {message.mad.begin(), message.mad.end()};
  }
  static UmadEnvelope to(Lid lid, std::uint32_t agent, std::uint32_t timeout_ms = 0,
                         std::uint32_t retries = 0) {
    return {.agent = agent,
            .timeout_ms = timeout_ms,
            .retries = retries,
            .pkey_index = 0,
            .address = {.lid = lid}};
  }
  void run() {
    smps.now = gmps.now = std::max(smps.now, gmps.now);
    smps.run();
    gmps.run();
  }
  void run_until(Instant until) {
    smps.run(until);
    gmps.run(until);
  }
  static UmadReceived next(UmadFile& file) {
    EXPECT_FALSE(file.is_empty());
    if (file.is_empty()) {
      return {};
    }
    UmadReceived received = file.front();
    file.pop();
    return received;
  }
  static wire::MadHeader header_of(const std::vector<std::byte>& mad) {
    return wire::unpack<wire::MadHeader>(std::span{mad}.first<wire::kSizeOf<wire::MadHeader>>());
  }

  mad::TestNetwork smps;
  mad::TestNetwork gmps;
  fabric::TablesBuilder tables{*fabric::generate("pair")};
  End here{smps, gmps, kHere, tables, fabric::PortIndex{0}};
  End there{smps, gmps, kThere, tables, fabric::PortIndex{1}};
  UmadFile file{here.access};
  UmadFile other{there.access};
};

TEST_F(UmadFileTest, HasThirtyTwoAgentsByTheLowestFreeNumber) {
  for (std::uint32_t i = 0; i < UmadFile::kMaxAgents; ++i) {
    EXPECT_EQ(file.register_agent(of_class(kPerf)), i);
  }
  const auto refused = file.register_agent(of_class(kPerf));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::OutOfMemory);
  EXPECT_TRUE(file.unregister_agent(7, gmps.now));
  EXPECT_FALSE(file.unregister_agent(7, gmps.now));
  EXPECT_EQ(file.register_agent(of_class(kPerf)), 7U);
  EXPECT_TRUE(other.register_agent(of_class(kPerf)));  // other files have their own
}

TEST_F(UmadFileTest, RefusesRegistrationsThatTheKernelRefuses) {
  UmadRegistration registration = of_class(kPerf);
  registration.class_version = 8;
  EXPECT_FALSE(file.register_agent(registration));
  registration = of_class(0x50);
  EXPECT_FALSE(file.register_agent(registration));
  registration = of_class(kPerf);
  registration.rmpp_version = 1;  // Perf has none
  EXPECT_FALSE(file.register_agent(registration));
  registration = of_class(0x30);
  registration.oui = 0x0100'0000;
  EXPECT_FALSE(file.register_agent(registration));
  EXPECT_EQ(file.agents(), 0U);
}

TEST_F(UmadFileTest, LetsOneAgentAloneHaveAMethodOfAClassOnAPort) {
  const auto sm = of_class(0x81, mad::methods({MadMethod::Get, MadMethod::Trap}));
  UmadFile second{here.access};
  EXPECT_TRUE(file.register_agent(sm));
  EXPECT_FALSE(second.register_agent(sm));
  EXPECT_TRUE(second.register_agent(of_class(0x81)));  // to ask is free
  EXPECT_TRUE(file.unregister_agent(0, smps.now));
  EXPECT_TRUE(second.register_agent(sm));
}

TEST_F(UmadFileTest, AnswersTheClassesWhoseRequestsAnAgentTakes) {
  constexpr std::uint8_t kDevMgt = 0x06;
  EXPECT_TRUE(file.register_agent(of_class(kDevMgt)));  // asks only, as srp_daemon does
  EXPECT_FALSE(file.answers(ManagementClass::DevMgt));
  EXPECT_TRUE(file.register_agent(of_class(kDevMgt, mad::methods({MadMethod::Get}))));
  EXPECT_TRUE(file.answers(ManagementClass::DevMgt));
  EXPECT_FALSE(file.answers(ManagementClass::Perf));
  EXPECT_TRUE(file.unregister_agent(1, smps.now));
  EXPECT_FALSE(file.answers(ManagementClass::DevMgt));
}

TEST_F(UmadFileTest, KeepsVendorsApartByTheirOui) {
  UmadRegistration ours = of_class(0x32, mad::methods({MadMethod::Get}));
  UmadRegistration theirs = ours;
  theirs.oui = 0xC9'0300;
  EXPECT_TRUE(file.register_agent(ours));
  EXPECT_TRUE(file.register_agent(theirs));
}

TEST_F(UmadFileTest, GivesEachTransactionTheAgentsHalfOfTheTid) {
  ASSERT_TRUE(file.register_agent(of_class(kPerf)));
  const auto agent = *file.register_agent(of_class(kPerf));
  ASSERT_TRUE(other.register_agent(of_class(kPerf, mad::methods({MadMethod::Get}))));
  file.send(to(kThere, agent, 1'000, 3),
            mad_of(ManagementClass::Perf, MadMethod::Get, 0xDEAD'BEEF'0000'0007), gmps.now);
  run_until(gmps.now + Duration::milliseconds(1));
  const UmadReceived request = next(other);
  EXPECT_EQ(request.envelope.agent, 0U);
  EXPECT_EQ(request.envelope.address.lid, kHere);
  const std::uint64_t tid = header_of(request.mad).transaction_id;
  EXPECT_EQ(static_cast<std::uint32_t>(tid), 7U);
  EXPECT_NE(tid >> 32, 0xDEAD'BEEFU);
  // The response goes to the requesting agent, with the original TID.
  ASSERT_TRUE(file.unregister_agent(0, gmps.now));
  other.send(to(kHere, 0), mad_of(ManagementClass::Perf, MadMethod::GetResp, tid), gmps.now);
  run();
  const UmadReceived answer = next(file);
  EXPECT_EQ(answer.envelope.agent, agent);
  EXPECT_EQ(answer.error, 0);
  EXPECT_EQ(header_of(answer.mad).transaction_id, tid);
  EXPECT_EQ(answer.mad.size(), wire::kMadBytes);
  EXPECT_TRUE(file.is_empty());
}

TEST_F(UmadFileTest, ReturnsAnUnansweredRequestAfterAllRetries) {
  const auto agent = *file.register_agent(of_class(kPerf));
  file.send(to(Lid{99}, agent, 10, 2), mad_of(ManagementClass::Perf, MadMethod::Get, 7), gmps.now);
  run_until(gmps.now + Duration::milliseconds(29));
  EXPECT_TRUE(file.is_empty());
  run_until(gmps.now + Duration::milliseconds(2));  // 10 ms x (2 + 1)
  const UmadReceived back = next(file);
  EXPECT_EQ(back.error, ETIMEDOUT);
  EXPECT_EQ(back.envelope.agent, agent);
  EXPECT_EQ(back.envelope.timeout_ms, 10U);
  EXPECT_EQ(back.envelope.address.lid, Lid{99});
  ASSERT_EQ(back.mad.size(), 24U);  // the header alone
  EXPECT_EQ(static_cast<std::uint32_t>(header_of(back.mad).transaction_id), 7U);
  EXPECT_EQ(gmps.sent.size(), 3U);
}

TEST_F(UmadFileTest, NeitherRepeatsNorHandsBackWhatExpectsNoAnswer) {
  const auto agent = *file.register_agent(of_class(kPerf));
  file.send(to(Lid{99}, agent), mad_of(ManagementClass::Perf, MadMethod::Get), gmps.now);
  run();
  EXPECT_EQ(gmps.sent.size(), 1U);
  EXPECT_TRUE(file.is_empty());
}

TEST_F(UmadFileTest, HandsBackWhatCannotBeSent) {
  const auto agent = *file.register_agent(of_class(kPerf));
  const auto mad = mad_of(ManagementClass::Perf, MadMethod::Get);
  file.send(to(kThere, 31, 10), mad, gmps.now);
  EXPECT_EQ(next(file).error, EINVAL);
  file.send(to(kThere, 4'000'000'000, 10), mad, gmps.now);
  EXPECT_EQ(next(file).error, EINVAL);
  file.send(to(kThere, agent, 10), ByteSpan{mad}.first(35), gmps.now);
  EXPECT_EQ(next(file).error, EINVAL);
  const std::vector<std::byte> longer(300, std::byte{1});
  file.send(to(kThere, agent, 10), longer, gmps.now);
  EXPECT_EQ(next(file).error, EINVAL);
  UmadEnvelope wrong_pkey = to(kThere, agent, 10);
  wrong_pkey.pkey_index = 5;
  file.send(wrong_pkey, mad, gmps.now);
  EXPECT_EQ(next(file).error, EINVAL);
  file.send(to(kThere, agent, 10), mad_of(ManagementClass::SubnLidRouted, MadMethod::Get),
            gmps.now);
  EXPECT_EQ(next(file).error, EINVAL);  // an agent of QP1
  EXPECT_TRUE(gmps.sent.empty());
}

TEST_F(UmadFileTest, RefusesTheSameTidWhileItIsInFlight) {
  const auto agent = *file.register_agent(of_class(kPerf));
  const auto mad = mad_of(ManagementClass::Perf, MadMethod::Get);
  file.send(to(Lid{99}, agent, 10), mad, gmps.now);
  EXPECT_TRUE(file.is_empty());
  file.send(to(Lid{99}, agent, 10), mad, gmps.now);
  EXPECT_EQ(next(file).error, EINVAL);
}

TEST_F(UmadFileTest, SendsMadsShorterThanTheWholeWithZeros) {
  const auto agent = *file.register_agent(of_class(kPerf));
  ASSERT_TRUE(other.register_agent(of_class(kPerf, mad::methods({MadMethod::Set}))));
  const auto mad = mad_of(ManagementClass::Perf, MadMethod::Set);
  file.send(to(kThere, agent), ByteSpan{mad}.first(100), gmps.now);
  run();
  const UmadReceived request = next(other);
  EXPECT_EQ(request.mad.size(), wire::kMadBytes);
  EXPECT_EQ(request.mad[200], std::byte{});
}

TEST_F(UmadFileTest, SegmentsAndReassemblesForAgentsOfRmppVersion1) {  // as saquery is
  const auto agent = *file.register_agent(of_class(kSa));
  const auto server = *other.register_agent(of_class(kSa, mad::methods({MadMethod::GetTable})));
  file.send(to(kThere, agent, 1'000, 3), mad_of(ManagementClass::SubnAdm, MadMethod::GetTable, 9),
            gmps.now);
  run_until(gmps.now + Duration::milliseconds(1));
  const UmadReceived request = next(other);
  constexpr std::size_t kHeaders = 56;
  std::vector<std::byte> table = mad_of(ManagementClass::SubnAdm, MadMethod::GetTableResp,
                                        header_of(request.mad).transaction_id);
  table.resize(kHeaders);
  mad::MadMessage header;
  copy_bytes(header.mad, table);
  mad::set_rmpp(header.mad, {.version = 1,
                             .type = wire::RmppType::None,  // opensm says no more than "active"
                             .response_time = wire::kRmppNoResponseTime,
                             .is_last = false,
                             .is_first = false,
                             .is_active = true,
                             .status = wire::RmppStatus::Normal,
                             .data1 = 0,
                             .data2 = 0});
  table.assign(header.mad.begin(), header.mad.begin() + kHeaders);
  const auto data = mad::pattern(5'000);
  table.insert(table.end(), data.begin(), data.end());
  other.send(to(kHere, server), table, gmps.now);
  run();
  const UmadReceived answer = next(file);
  ASSERT_EQ(answer.mad.size(), kHeaders + data.size());
  EXPECT_TRUE(std::equal(data.begin(), data.end(), answer.mad.begin() + kHeaders));
  EXPECT_GT(gmps.sent.size(), 25U);  // 200 bytes each, and ACKs
}

TEST_F(UmadFileTest, LeavesRmppToProgramsThatWantToDoItThemselves) {
  UmadRegistration registration = of_class(kSa, mad::methods({MadMethod::Set}));
  registration.does_rmpp = true;
  ASSERT_TRUE(other.register_agent(registration));
  const auto agent = *file.register_agent(registration);
  auto segment = mad_of(ManagementClass::SubnAdm, MadMethod::Set, 5);
  segment[24] = std::byte{1};
  segment[25] = static_cast<std::byte>(wire::RmppType::Data);
  segment[26] = std::byte{0x03};  // active, first
  for (std::uint8_t number = 1; number <= 3; ++number) {
    segment[35 - 4] = static_cast<std::byte>(number);
    file.send(to(kThere, agent, 50), segment, gmps.now);  // one TID for all of them
  }
  run_until(gmps.now + Duration::milliseconds(1));
  for (std::uint8_t number = 1; number <= 3; ++number) {
    const UmadReceived each = next(other);
    EXPECT_EQ(each.mad.size(), wire::kMadBytes);
    EXPECT_EQ(each.mad[31], static_cast<std::byte>(number));
  }
  EXPECT_EQ(gmps.sent.size(), 3U);  // without any acknowledgement
}

TEST_F(UmadFileTest, SendsByQp0AndQp1AsTheAgentWasRegistered) {
  const auto sm = *file.register_agent(of_class(0x81));
  const auto perf = *file.register_agent(of_class(kPerf));
  file.send(to(kPermissiveLid, sm), mad_of(ManagementClass::SubnDirectedRoute, MadMethod::Get),
            smps.now);
  // As opensm does: by LID, with the agent of directed routes.
  file.send(to(kThere, sm), mad_of(ManagementClass::SubnLidRouted, MadMethod::Get), smps.now);
  file.send(to(kThere, perf), mad_of(ManagementClass::Perf, MadMethod::Get), smps.now);
  run();
  EXPECT_EQ(std::ranges::count(smps.sent, kHere, &mad::TestNetwork::Sent::from), 2);
  EXPECT_EQ(std::ranges::count(gmps.sent, kHere, &mad::TestNetwork::Sent::from), 1);
}

TEST_F(UmadFileTest, GivesRequestsToTheAgentOfTheirMethodAndNeverTwice) {
  const auto traps = *other.register_agent(of_class(0x01, mad::methods({MadMethod::Trap})));
  const auto infos = *other.register_agent(of_class(0x01, mad::methods({MadMethod::Get})));
  const auto agent = *file.register_agent(of_class(0x01));
  file.send(to(kThere, agent), mad_of(ManagementClass::SubnLidRouted, MadMethod::Get), smps.now);
  file.send(to(kThere, agent), mad_of(ManagementClass::SubnLidRouted, MadMethod::Trap), smps.now);
  run();
  EXPECT_EQ(next(other).envelope.agent, infos);
  EXPECT_EQ(next(other).envelope.agent, traps);
  EXPECT_TRUE(other.is_empty());
}

TEST_F(UmadFileTest, TellsNobodyOfTransactionsOfAnAgentThatIsGone) {
  const auto agent = *file.register_agent(of_class(kPerf));
  file.send(to(Lid{99}, agent, 10), mad_of(ManagementClass::Perf, MadMethod::Get), gmps.now);
  EXPECT_TRUE(file.unregister_agent(agent, gmps.now));
  run();
  EXPECT_TRUE(file.is_empty());
  EXPECT_EQ(here.gsi.transactions(), 0U);
}

TEST_F(UmadFileTest, LeavesNothingOnThePortWhenItIsClosed) {
  {
    UmadFile short_lived{here.access};
    const auto agent = *short_lived.register_agent(of_class(kPerf, mad::methods({MadMethod::Get})));
    short_lived.send(to(Lid{99}, agent, 10), mad_of(ManagementClass::Perf, MadMethod::Set),
                     gmps.now);
  }
  EXPECT_EQ(here.gsi.transactions(), 0U);
  EXPECT_TRUE(file.register_agent(of_class(kPerf, mad::methods({MadMethod::Get}))));
}

TEST_F(UmadFileTest, DropsWhatIsNotReadAboveItsLimit) {
  const auto agent = *file.register_agent(of_class(kPerf));
  const auto mad = mad_of(ManagementClass::Perf, MadMethod::Get);
  for (std::size_t i = 0; i < UmadFile::kMaxQueued + 10; ++i) {
    file.send(to(kThere, agent, 10), ByteSpan{mad}.first(35), gmps.now);  // each comes back
  }
  EXPECT_EQ(file.dropped(), 10U);
}

}  // namespace
}  // namespace weft::node
