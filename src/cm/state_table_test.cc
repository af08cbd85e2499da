// The state table, and that the manager implements it: each call (T-CM-5) and each message (T-CM-6)
// in each state.

#include "cm/state_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>

#include "base/testing/golden.h"
#include "cm/testing/states.h"
#include "wire/cm/dreq.h"
#include "wire/cm/rej.h"
#include "wire/cm/sidr.h"

namespace weft::cm {
namespace {

using wire::CmAttribute;

void expect_golden(const std::string& name, const std::string& text) {
  const std::string path = weft::testing::golden("cm/" + name);
  if (std::getenv("WEFT_WRITE_GOLDEN") != nullptr) {
    std::ofstream{path} << text;
  }
  std::ifstream file{path};
  ASSERT_TRUE(file) << path;
  EXPECT_EQ(text, (std::string{std::istreambuf_iterator<char>{file}, {}}))
      << "a deliberate change: run this test with WEFT_WRITE_GOLDEN=1, and read the difference "
         "against the specification";
}

/// What the two tests of each state below expect of the states: read against the specification.
TEST(StateTable, IsAsInItsGoldenTexts) {  // T-CM-5, T-CM-6
  expect_golden("states.txt", matrix_text());
  expect_golden("states.dot", graph_text());
}

[[nodiscard]] Result<void> call(TestCmNetwork& net, const InState& in, Input input) {
  ConnectionManager& cm = in.host->cm;
  TestHost& peer = in.host == &net.a() ? net.b() : net.a();
  switch (input) {
    case Input::Listen:
      if (const auto listening = cm.listen(in.id, {.service_id = 0x99}); !listening) {
        return std::unexpected(listening.error());
      }
      return {};
    case Input::SendReq: {
      auto request = net.request();
      request.primary = TestCmNetwork::path(*in.host, peer);
      return cm.send_req(in.id, request, net.now);
    }
    case Input::SendRep:
      return cm.send_rep(in.id, TestCmNetwork::reply(), net.now);
    case Input::SendRtu:
      return cm.send_rtu(in.id, {}, net.now);
    case Input::SendMra:
      return cm.send_mra(in.id, 10, {}, net.now);
    case Input::SendRej:
      return cm.send_rej(in.id, {}, net.now);
    case Input::NotifyEstablished:
      return cm.establish(in.id, net.now);
    case Input::NotifyMigrated:
      return cm.notify(in.id, AsyncEventType::PathMigrated, net.now);
    case Input::SendLap:
      return cm.send_lap(in.id, TestCmNetwork::alternate(*in.host, peer), {}, net.now);
    case Input::SendApr:
      return cm.send_apr(in.id, {}, net.now);
    case Input::SendDreq:
      return cm.send_dreq(in.id, {}, net.now);
    case Input::SendDrep:
      return cm.send_drep(in.id, {}, net.now);
    case Input::SendSidrReq:
      return cm.send_sidr_req(in.id, {.path = TestCmNetwork::path(*in.host, peer), .service_id = 5},
                              net.now);
    case Input::SendSidrRep:
      return cm.send_sidr_rep(in.id, {}, net.now);
    default:
      return fail(ErrorCode::Io, "no call");
  }
}

class EveryState : public ::testing::TestWithParam<unsigned> {
 protected:
  [[nodiscard]] static State state() { return static_cast<State>(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(, EveryState, ::testing::Range(0U, kStateCount), [](const auto& each) {
  return std::string{name_of(static_cast<State>(each.param))};
});

[[nodiscard]] CmAttribute attribute_of(const mad::MadBytes& mad) {
  return static_cast<CmAttribute>(header_of(mad).attribute_id);
}

/// What a call sends, if anything.
[[nodiscard]] std::optional<CmAttribute> sent_by(Input call) {
  switch (call) {
    case Input::SendReq:
      return CmAttribute::Req;
    case Input::SendRep:
      return CmAttribute::Rep;
    case Input::SendRtu:
      return CmAttribute::Rtu;
    case Input::SendMra:
      return CmAttribute::Mra;
    case Input::SendRej:
      return CmAttribute::Rej;
    case Input::SendLap:
      return CmAttribute::Lap;
    case Input::SendApr:
      return CmAttribute::Apr;
    case Input::SendDreq:
      return CmAttribute::Dreq;
    case Input::SendDrep:
      return CmAttribute::Drep;
    case Input::SendSidrReq:
      return CmAttribute::SidrReq;
    case Input::SendSidrRep:
      return CmAttribute::SidrRep;
    default:
      return std::nullopt;
  }
}

TEST_P(EveryState, TakesTheCallsOfTheTableAndRefusesAllOthers) {  // T-CM-5
  for (unsigned i = 0; i < static_cast<unsigned>(Input::Destroy); ++i) {
    const auto input = static_cast<Input>(i);
    TestCmNetwork net;
    const InState in = put_into(net, state());
    const Transition expected = transition(state(), input);
    const auto result = call(net, in, input);
    const auto packet = in.host->gsi.poll_transmit(net.now);
    // Without an alternate path, migration is impossible.
    const bool lacks_path = input == Input::NotifyMigrated && expected.action == Action::Do;
    if (expected.action == Action::Do && !lacks_path) {
      EXPECT_TRUE(result.has_value()) << name_of(input) << ": " << result.error().reason;
      EXPECT_EQ(in.host->state(in.id), expected.next) << name_of(input);
      const auto sent = packet ? std::optional{attribute_of(packet->bytes)} : std::nullopt;
      EXPECT_EQ(sent, sent_by(input)) << name_of(input);
    } else {
      ASSERT_FALSE(result.has_value()) << name_of(input);
      EXPECT_EQ(result.error().code, expected.action == Action::AlreadyDone
                                         ? ErrorCode::AlreadyConnected
                                         : ErrorCode::InvalidArgument);
      EXPECT_EQ(in.host->state(in.id), state()) << name_of(input);
      EXPECT_FALSE(packet.has_value()) << name_of(input);
    }
    in.host->cm.check_invariants();
  }
}

/// A message as the peer of that id would send it.
[[nodiscard]] mad::MadBytes message(const TestHost& host, const IdStatus& id, Input input) {
  const std::uint32_t local = id.remote_communication_id != 0 ? id.remote_communication_id : 4711;
  const std::uint32_t remote = id.local_communication_id;
  const auto mra = [&](wire::CmSubject subject) {
    return make_mad(CmAttribute::Mra, 1,
                    wire::Mra{.local_communication_id = local,
                              .remote_communication_id = remote,
                              .subject = subject,
                              .service_timeout = 10});
  };
  const auto rej = [&](wire::RejectReason reason) {
    return make_mad(
        CmAttribute::Rej, 1,
        wire::Rej{
            .local_communication_id = local, .remote_communication_id = remote, .reason = reason});
  };
  switch (input) {
    case Input::Req: {
      wire::Req req{.local_communication_id = local,
                    .service_id = 0x1000,
                    .local_ca_guid = id.remote_ca,
                    .local_qpn = id.remote_qpn,
                    .path_mtu = 3};
      return make_mad(CmAttribute::Req, 1, req);
    }
    case Input::MraOfReq:
      return mra(wire::CmSubject::Req);
    case Input::MraOfRep:
      return mra(wire::CmSubject::Rep);
    case Input::MraOfLap:
      return mra(wire::CmSubject::LapOrNothing);
    case Input::Rep:
      return make_mad(CmAttribute::Rep, 1,
                      wire::Rep{.local_communication_id = local,
                                .remote_communication_id = remote,
                                .local_qpn = Qpn{0x22},
                                .local_ca_guid = Guid{9}});
    case Input::Rej:
      return rej(wire::RejectReason::ConsumerReject);
    case Input::RejStale:
      return rej(wire::RejectReason::StaleConnection);
    case Input::Dreq:
      return make_mad(CmAttribute::Dreq, 1,
                      wire::Dreq{.local_communication_id = local,
                                 .remote_communication_id = remote,
                                 .remote_qpn = id.local_qpn});
    case Input::Lap: {
      wire::Lap lap{.local_communication_id = local,
                    .remote_communication_id = remote,
                    .remote_qpn = id.local_qpn};
      lap.alternate.remote_gid = host.other_gid();
      lap.alternate.remote_lid = host.lid;
      return make_mad(CmAttribute::Lap, 1, lap);
    }
    case Input::SidrRep:
      return make_mad(CmAttribute::SidrRep, 1, wire::SidrRep{.request_id = remote});
    case Input::Rtu:
      return make_mad(CmAttribute::Rtu, 1, wire::Rtu{local, remote, {}});
    case Input::Drep:
      return make_mad(CmAttribute::Drep, 1, wire::Drep{local, remote, {}});
    default:
      return make_mad(
          CmAttribute::Apr, std::uint64_t{1} << 32 | (remote + 1),
          wire::Apr{.local_communication_id = local, .remote_communication_id = remote});
  }
}

constexpr std::array kMessages = {Input::Req,    Input::MraOfReq, Input::MraOfRep, Input::MraOfLap,
                                  Input::Rep,    Input::Rtu,      Input::Rej,      Input::RejStale,
                                  Input::Dreq,   Input::Drep,     Input::Lap,      Input::Apr,
                                  Input::SidrRep};

/// True if the message can address an id in that state: both communication IDs must exist where the
/// message contains them. A REQ with a known communication ID is a duplicate.
[[nodiscard]] bool can_be_for(const IdStatus& id, Input input) {
  if (id.state == State::Idle || id.state == State::Listen || id.state == State::SidrReqRcvd) {
    return false;
  }
  return input != Input::Req || id.remote_communication_id != 0;
}

/// The table has no row for a SIDR_REQ: it creates an id or is a duplicate.
[[nodiscard]] mad::MadBytes sidr_req(const TestCmNetwork& net, const IdStatus& id) {
  for (const auto& sent : net.sent) {
    if (sent.attribute == CmAttribute::SidrReq) {
      return sent.mad;
    }
  }
  return make_mad(
      CmAttribute::SidrReq, 1,
      wire::SidrReq{
          .request_id = id.local_communication_id, .pkey = kDefaultPKey, .service_id = 0x1000});
}

/// A message that does not address this id must not change it or cause an event for it.
TEST_P(EveryState, IsLeftAloneByMessagesThatAreNotForIt) {  // T-CM-6
  const auto is_left_alone = [](const std::optional<Input>& input) {
    TestCmNetwork net;
    const InState in = put_into(net, state());
    const IdStatus before = *in.host->cm.status(in.id);
    if (input && can_be_for(before, *input)) {
      return;
    }
    const std::size_t reported = in.host->reported_for(in.id).size();
    net.inject(*in.host, Lid{1}, input ? message(*in.host, before, *input) : sidr_req(net, before));
    const auto name = input ? name_of(*input) : "SIDR_REQ";
    EXPECT_EQ(in.host->state(in.id), state()) << name;
    EXPECT_EQ(in.host->reported_for(in.id).size(), reported) << name;
    const IdStatus after = *in.host->cm.status(in.id);
    EXPECT_EQ(after.remote_communication_id, before.remote_communication_id) << name;
    EXPECT_EQ(after.deadline, before.deadline) << name;
  };
  for (const Input input : kMessages) {
    is_left_alone(input);
  }
  is_left_alone({});
}

/// The messages that are answered by what was sent before, or by a REJ, in states whose ids have
/// sent it (IBTA vol 1 §12.9); in all others nothing is sent. It is the server that is in LapRcvd
/// and MraLapSent here, and it has sent no RTU.
struct RepeatedAnswer {
  State state;
  Input message;
  CmAttribute answer;
};
constexpr auto kRepeatedAnswers = std::to_array<RepeatedAnswer>({
    {State::MraReqSent,  Input::Req,  CmAttribute::Mra },
    {State::MraRepSent,  Input::Rep,  CmAttribute::Mra },
    {State::MraLapSent,  Input::Lap,  CmAttribute::Mra },
    {State::Established, Input::Rep,  CmAttribute::Rtu },
    {State::LapSent,     Input::Rep,  CmAttribute::Rtu },
    {State::MraLapRcvd,  Input::Rep,  CmAttribute::Rtu },
    {State::Timewait,    Input::Req,  CmAttribute::Rej },
    {State::Timewait,    Input::Dreq, CmAttribute::Drep},
});

void expect_answer(State state, Input message, const std::optional<mad::MadPacket>& packet) {
  const auto* const row = std::ranges::find_if(kRepeatedAnswers, [&](const RepeatedAnswer& each) {
    return each.state == state && each.message == message;
  });
  ASSERT_EQ(packet.has_value(), row != kRepeatedAnswers.end());
  if (!packet) {
    return;
  }
  ASSERT_EQ(attribute_of(packet->bytes), row->answer);
  if (row->answer == CmAttribute::Rej) {
    EXPECT_EQ(message_of<wire::Rej>(packet->bytes).reason, wire::RejectReason::StaleConnection);
  } else if (row->answer == CmAttribute::Mra) {
    EXPECT_EQ(message_of<wire::Mra>(packet->bytes).subject,
              message == Input::Req   ? wire::CmSubject::Req
              : message == Input::Rep ? wire::CmSubject::Rep
                                      : wire::CmSubject::LapOrNothing);
  }
}

[[nodiscard]] CmEventType reported_as(Input message) {
  switch (message) {
    case Input::Req:
      return CmEventType::ReqReceived;
    case Input::MraOfReq:
    case Input::MraOfRep:
    case Input::MraOfLap:
      return CmEventType::MraReceived;
    case Input::Rep:
      return CmEventType::RepReceived;
    case Input::Rtu:
      return CmEventType::RtuReceived;
    case Input::Rej:
    case Input::RejStale:
      return CmEventType::RejReceived;
    case Input::Dreq:
      return CmEventType::DreqReceived;
    case Input::Drep:
      return CmEventType::DrepReceived;
    case Input::Lap:
      return CmEventType::LapReceived;
    case Input::Apr:
      return CmEventType::AprReceived;
    default:
      return CmEventType::SidrRepReceived;
  }
}

TEST_P(EveryState, TakesTheMessagesOfTheTable) {  // T-CM-6
  for (const Input input : kMessages) {
    SCOPED_TRACE(name_of(input));
    TestCmNetwork net;
    const InState in = put_into(net, state());
    const IdStatus before = *in.host->cm.status(in.id);
    if (!can_be_for(before, input)) {
      continue;
    }
    const Transition expected = transition(state(), input);
    const std::size_t reported = in.host->reported.size();
    net.inject(*in.host, Lid{5}, message(*in.host, before, input));
    EXPECT_EQ(in.host->state(in.id), expected.next);
    const bool is_reported = expected.action == Action::Report;
    ASSERT_EQ(in.host->reported.size() - reported, is_reported ? 1U : 0U);
    if (is_reported) {
      EXPECT_EQ(in.host->reported.back().id, in.id);
      EXPECT_EQ(in.host->reported.back().event.type, reported_as(input));
    }
    expect_answer(state(), input, in.host->gsi.poll_transmit(net.now));
  }
}

/// Messages of every kind in any order, every second one damaged: a million of them in all states.
TEST_P(EveryState, HoldsTogetherUnderRandomMessages) {  // T-CM-6
  constexpr unsigned kPairs = 1'000'000 / kStateCount;
  Random random{GetParam() + 1};
  std::unique_ptr<TestCmNetwork> net;
  InState in;
  IdStatus before;
  for (unsigned i = 0; i < kPairs; ++i) {
    if (net == nullptr || in.host->state(in.id) != state() || in.host->cm.ids().size() > 20) {
      net = std::make_unique<TestCmNetwork>();
      in = put_into(*net, state());
      before = *in.host->cm.status(in.id);
    }
    const Input input = kMessages[random.below(kMessages.size())];
    mad::MadBytes bytes = message(*in.host, before, input);
    const bool is_damaged = random.chance(1, 2);
    for (std::uint64_t left = is_damaged ? 1 + random.below(8) : 0; left > 0; --left) {
      bytes[random.below(bytes.size())] = static_cast<std::byte>(random());
    }
    in.host->gsi.handle_mad({.lid = Lid{5}}, bytes, net->now);
    if (!is_damaged && can_be_for(before, input)) {
      ASSERT_EQ(in.host->state(in.id), transition(state(), input).next) << name_of(input);
    }
    while (in.host->gsi.poll_transmit(net->now)) {
    }
    in.host->reported.clear();
  }
  in.host->cm.check_invariants();
}

}  // namespace
}  // namespace weft::cm
