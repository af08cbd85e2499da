// Receive side: validation, agents and their responses (R-MI-3, R-MI-5 to R-MI-7).

#include <gtest/gtest.h>

#include <algorithm>

#include "mad/management_interface.h"
#include "mad/testing/network.h"

namespace weft::mad {
namespace {

using wire::MadMethod;
using wire::ManagementClass;

constexpr Lid kPeer{9};

class Receiving : public ::testing::Test {
 protected:
  void give(const MadMessage& message) { gsi.handle_mad({.lid = kPeer}, message.mad, now); }
  std::optional<MadMessage> sent() {
    const auto packet = gsi.poll_transmit(now);
    return packet ? std::optional{MadMessage{.mad = packet->bytes}} : std::nullopt;
  }
  void answer_with(TestAgent& agent, std::initializer_list<MadMethod> list) {
    ASSERT_TRUE(gsi.register_agent(registration_of(ManagementClass::Perf, list), &agent));
  }

  ManagementInterface gsi{
      InterfaceKind::Gsi, {.served_exchanges = 2, .queued_mads = 16}
  };
  Instant now{Duration::seconds(1)};
};

TEST_F(Receiving, SendsWhatTheAgentReturnsAsAnAnswer) {  // R-MI-7
  TestAgent agent{[](MadRequest& request) {
    EXPECT_EQ(request.source.lid, kPeer);
    return &request.message;
  }};
  answer_with(agent, {MadMethod::Set});
  MadMessage set = request_of(ManagementClass::Perf, MadMethod::Set, 0x12);
  give(set);
  const auto packet = gsi.poll_transmit(now);
  ASSERT_TRUE(packet);
  EXPECT_EQ(packet->address.lid, kPeer);
  const wire::MadHeader header = MadMessage{.mad = packet->bytes}.header();
  EXPECT_EQ(header.method, MadMethod::GetResp);
  EXPECT_EQ(header.transaction_id, set.header().transaction_id);
  EXPECT_EQ(header.attribute_id, 0x12);
}

TEST_F(Receiving, SendsNothingWhenTheAgentReturnsNull) {  // T-MI-5
  TestAgent agent{[](MadRequest&) { return nullptr; }};
  answer_with(agent, {MadMethod::Get});
  give(request_of(ManagementClass::Perf, MadMethod::Get));
  EXPECT_EQ(agent.requests, 1);
  EXPECT_FALSE(sent());
  EXPECT_EQ(gsi.deadline(), Instant::never());
}

TEST_F(Receiving, KeepsTheFailureOfASetThatEndsAsAGet) {  // T-MI-4, R-MI-6
  const auto get = [](MadMessage& message) {
    message.mad[64] = std::byte{0x55};  // the attribute after the request
    return &message;
  };
  TestAgent agent{[&](MadRequest& request) {
    if (request.message.header().method == MadMethod::Set) {
      request.message.set_status(wire::kMadStatusInvalidField);
    }
    return get(request.message);
  }};
  answer_with(agent, {MadMethod::Get, MadMethod::Set});
  give(request_of(ManagementClass::Perf, MadMethod::Set));
  const auto failed = sent();
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->status(), wire::kMadStatusInvalidField);
  EXPECT_EQ(failed->mad[64], std::byte{0x55});
  give(request_of(ManagementClass::Perf, MadMethod::Get));
  EXPECT_EQ(sent()->status(), 0);
}

TEST_F(Receiving, DropsWhatIsNo256Bytes) {  // R-MI-5
  const std::array<std::byte, 300> bytes{};
  for (const std::size_t size : {0U, 24U, 255U, 257U, 300U}) {
    gsi.handle_mad({.lid = kPeer}, std::span{bytes}.first(size), now);
  }
  EXPECT_EQ(gsi.counters().wrong_size, 5U);
  EXPECT_FALSE(sent());
}

TEST_F(Receiving, SaysWhichVersionOrMethodIsNotSupported) {  // R-MI-5, IBTA vol 1 §13.4.7
  TestAgent agent{[](MadRequest& request) { return &request.message; }};
  answer_with(agent, {MadMethod::Get});
  const auto status_of = [&](wire::MadHeader header) {
    MadMessage message;
    message.set_header(header);
    give(message);
    const auto answer = sent();
    EXPECT_TRUE(answer && wire::is_response(answer->header().method));
    return answer ? answer->status() : std::uint16_t{0xFFFF};
  };
  EXPECT_EQ(
      status_of({.base_version = 2, .mgmt_class = ManagementClass::Perf, .method = MadMethod::Get}),
      wire::kMadStatusBadVersion);
  EXPECT_EQ(
      status_of(
          {.mgmt_class = ManagementClass::Perf, .class_version = 3, .method = MadMethod::Get}),
      wire::kMadStatusBadVersion);
  EXPECT_EQ(status_of({.mgmt_class = ManagementClass::Perf, .method = MadMethod::Set}),
            wire::kMadStatusMethodUnsupported);
  EXPECT_EQ(status_of({.mgmt_class = ManagementClass::DevMgt, .method = MadMethod::Get}),
            wire::kMadStatusMethodAttributeUnsupported);
  EXPECT_EQ(agent.requests, 0);
  EXPECT_EQ(gsi.counters().bad_version, 2U);
  EXPECT_EQ(gsi.counters().unsupported_method, 1U);
  EXPECT_EQ(gsi.counters().unsupported_class, 1U);
}

TEST_F(Receiving, SaysNothingToWhatWantsNoAnswer) {
  for (const MadMethod method : {MadMethod::Send, MadMethod::Trap, MadMethod::TrapRepress,
                                 MadMethod::GetResp, static_cast<MadMethod>(0x7F)}) {
    give(request_of(ManagementClass::Perf, method));
  }
  EXPECT_FALSE(sent());
}

TEST_F(Receiving, TakesSmpsOnQp0OnlyAndOthersOnQp1Only) {
  TestAgent agent{[](MadRequest& request) { return &request.message; }};
  ManagementInterface smi{InterfaceKind::Smi};
  ASSERT_TRUE(smi.register_agent(registration_of(ManagementClass::SubnLidRouted, {MadMethod::Get}),
                                 &agent));
  answer_with(agent, {MadMethod::Get});
  give(request_of(ManagementClass::SubnLidRouted, MadMethod::Get));
  smi.handle_mad({.lid = kPeer}, request_of(ManagementClass::Perf, MadMethod::Get).mad, now);
  EXPECT_EQ(agent.requests, 0);
  EXPECT_FALSE(sent());
  EXPECT_FALSE(smi.poll_transmit(now));
  smi.handle_mad({.lid = kPeer}, request_of(ManagementClass::SubnLidRouted, MadMethod::Get).mad,
                 now);
  EXPECT_EQ(agent.requests, 1);
}

TEST_F(Receiving, LetsAnAgentAnswerLater) {  // R-MI-7
  std::optional<Deferral> deferral;
  TestAgent agent{[&](MadRequest& request) -> const MadMessage* {
    deferral = request.defer();
    return nullptr;
  }};
  answer_with(agent, {MadMethod::Get});
  const MadMessage request = request_of(ManagementClass::Perf, MadMethod::Get);
  give(request);
  give(request);  // duplicate of a request in progress
  EXPECT_EQ(agent.requests, 1);
  EXPECT_EQ(gsi.counters().duplicates, 1U);
  EXPECT_FALSE(sent());
  ASSERT_TRUE(deferral);
  ASSERT_TRUE(gsi.respond(*deferral, request, now));
  EXPECT_EQ(sent()->header().method, MadMethod::GetResp);
  EXPECT_FALSE(gsi.respond(*deferral, request, now));
  gsi.check_invariants();
  give(request);
  EXPECT_EQ(agent.requests, 2);
}

TEST_F(Receiving, GivesDeferredAnswersUpAndBoundsThem) {
  std::vector<std::optional<Deferral>> deferrals;
  TestAgent agent{[&](MadRequest& request) -> const MadMessage* {
    deferrals.push_back(request.defer());
    request.message.set_status(wire::kMadStatusBusy);
    return deferrals.back() ? nullptr : &request.message;
  }};
  answer_with(agent, {MadMethod::Get});
  for (std::uint64_t tid = 1; tid <= 3; ++tid) {
    MadMessage request = request_of(ManagementClass::Perf, MadMethod::Get);
    wire::MadHeader header = request.header();
    header.transaction_id = tid;
    request.set_header(header);
    give(request);
  }
  ASSERT_EQ(deferrals.size(), 3U);
  EXPECT_TRUE(deferrals[0] && deferrals[1] && !deferrals[2]);
  EXPECT_EQ(sent()->status(), wire::kMadStatusBusy);
  now = gsi.deadline();
  gsi.handle_timeout(now);
  EXPECT_FALSE(gsi.respond(*deferrals[0], {}, now));
  EXPECT_EQ(gsi.deadline(), Instant::never());
  gsi.check_invariants();
}

/// An SA with table responses of a given size, and peers that never acknowledge.
class Unacknowledged : public ::testing::Test {
 protected:
  explicit Unacknowledged(const Limits& limits = {.served_exchanges = 5,
                                                  .served_exchanges_of_peer = 3,
                                                  .sent_bytes_of_peer = 5'000})
      : gsi(InterfaceKind::Gsi, limits) {
    EXPECT_TRUE(gsi.register_agent(registration_of(ManagementClass::SubnAdm, {MadMethod::GetTable}),
                                   &agent));
  }
  /// The status of the first MAD that answers.
  std::uint16_t ask(Lid peer, std::size_t bytes) {
    size = bytes;
    MadMessage request = request_of(ManagementClass::SubnAdm, MadMethod::GetTable);
    wire::MadHeader header = request.header();
    header.transaction_id = ++tid;
    request.set_header(header);
    gsi.handle_mad({.lid = peer}, request.mad, now);
    gsi.check_invariants();
    const auto packet = gsi.poll_transmit(now);
    EXPECT_TRUE(packet);
    return packet ? MadMessage{.mad = packet->bytes}.status() : std::uint16_t{0xFFFF};
  }
  std::size_t size{};
  std::uint64_t tid{};
  Instant now{Duration::seconds(1)};
  TestAgent agent{[this](MadRequest& request) {
    request.message.is_rmpp = true;
    request.message.data.resize(size);
    return &request.message;
  }};
  ManagementInterface gsi;
};

TEST_F(Unacknowledged, AnswersOfOnePeerLeaveOthersTheirRoom) {
  constexpr Lid kGreedy{7};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ask(kGreedy, 100), 0);
  }
  EXPECT_EQ(ask(kGreedy, 100), wire::kMadStatusBusy);
  EXPECT_EQ(ask(kPeer, 100), 0);
  EXPECT_EQ(ask(kPeer, 100), 0);
  EXPECT_EQ(ask(kPeer, 100), wire::kMadStatusBusy) << "the limit of all";
}

TEST_F(Unacknowledged, AnswersOfOnePeerHoldSoManyBytesAtMost) {
  EXPECT_EQ(ask(kPeer, 8'000), 0) << "one is answered whatever its length";
  EXPECT_EQ(ask(kPeer, 1), wire::kMadStatusBusy);
  EXPECT_EQ(ask(Lid{10}, 2'000), 0);
  EXPECT_EQ(ask(Lid{10}, 2'000), 0);
  EXPECT_EQ(ask(Lid{10}, 2'000), wire::kMadStatusBusy);
}

TEST_F(Receiving, AnswersATrapWithTrapRepress) {
  TestAgent agent{[](MadRequest& request) { return &request.message; }};
  answer_with(agent, {MadMethod::Trap});
  give(request_of(ManagementClass::Perf, MadMethod::Trap));
  EXPECT_EQ(sent()->header().method, MadMethod::TrapRepress);
}

TEST_F(Receiving, AnswersEveryRepetitionOfAMessageThatIsSent) {
  constexpr std::uint16_t kRtu = 0x14;
  TestAgent agent{[](MadRequest& request) {
    wire::MadHeader header = request.message.header();
    header.attribute_id = kRtu;
    request.message.set_header(header);
    return &request.message;
  }};
  ASSERT_TRUE(
      gsi.register_agent(registration_of(ManagementClass::ComMgt, {MadMethod::Send}), &agent));
  for (int i = 0; i < 5; ++i) {
    give(request_of(ManagementClass::ComMgt, MadMethod::Send, 0x13));
  }
  int rtus = 0;
  while (const auto answer = sent()) {
    EXPECT_EQ(answer->header().method, MadMethod::Send);
    rtus += answer->header().attribute_id == kRtu ? 1 : 0;
  }
  EXPECT_EQ(rtus, 5);
}

TEST_F(Receiving, LosesNothingOfAFloodThatIsDrained) {
  TestAgent agent{[](MadRequest& request) { return &request.message; }};
  answer_with(agent, {MadMethod::Get});
  int answers = 0;
  for (int i = 0; i < 1000; ++i) {
    give(request_of(ManagementClass::Perf, MadMethod::Get));
    answers += sent() ? 1 : 0;
  }
  EXPECT_EQ(answers, 1000);
}

TEST_F(Receiving, DiscardsAnswersWhenNobodyDrainsThem) {
  TestAgent agent{[](MadRequest& request) { return &request.message; }};
  answer_with(agent, {MadMethod::Get});
  for (int i = 0; i < 20; ++i) {
    give(request_of(ManagementClass::Perf, MadMethod::Get));
  }
  EXPECT_EQ(gsi.counters().discarded, 4U);
  gsi.check_invariants();
}

}  // namespace
}  // namespace weft::mad
