// Features of agents for umad programs: all classes, their own RMPP, BUSY.

#include <gtest/gtest.h>

#include "mad/management_interface.h"
#include "mad/testing/network.h"

namespace weft::mad {
namespace {

using wire::MadMethod;
using wire::ManagementClass;

constexpr Lid kHere{1};
constexpr Lid kThere{2};

/// An agent that implements RMPP itself; stores the segments.
class SegmentTaker final : public MadHandler {
 public:
  const MadMessage* handle(MadRequest& request) override {
    requests.push_back(request.message);
    return nullptr;
  }
  void handle_segment(const MadAddress&, const MadBytes& segment) override {
    segments.push_back(segment);
  }
  std::vector<MadMessage> requests;
  std::vector<MadBytes> segments;
};

[[nodiscard]] MadBytes segment(MadMethod method, std::uint64_t tid, std::uint32_t number) {
  MadMessage message = request_of(ManagementClass::SubnAdm, method);
  wire::MadHeader header = message.header();
  header.transaction_id = tid;
  message.set_header(header);
  set_rmpp(message.mad, {.version = wire::kRmppVersion,
                         .type = wire::RmppType::Data,
                         .response_time = wire::kRmppNoResponseTime,
                         .is_last = false,
                         .is_first = number == 1,
                         .is_active = true,
                         .status = wire::RmppStatus::Normal,
                         .data1 = number,
                         .data2 = 0});
  return message.mad;
}

TEST(ProgramAgents, SendEveryClassOfTheirInterfaceIfTheyMay) {
  ManagementInterface smi{InterfaceKind::Smi};
  Registration registration = registration_of(ManagementClass::SubnDirectedRoute, {});
  const auto strict = smi.register_agent(registration, nullptr);
  registration.sends_any_class = true;
  const auto free = smi.register_agent(registration, nullptr);
  const MadMessage smp = request_of(ManagementClass::SubnLidRouted, MadMethod::Get);
  EXPECT_FALSE(smi.post(*strict, {.lid = kThere}, smp, Instant{}));
  EXPECT_TRUE(smi.post(*free, {.lid = kThere}, smp, Instant{}));
  const MadMessage query = request_of(ManagementClass::SubnAdm, MadMethod::Get);
  EXPECT_FALSE(smi.post(*free, {.lid = kThere}, query, Instant{}));  // that is for QP1
}

TEST(ProgramAgents, AreGivenEachSegmentIfTheyDoRmppThemselves) {
  ManagementInterface gsi{InterfaceKind::Gsi};
  SegmentTaker taker;
  Registration registration = registration_of(ManagementClass::SubnAdm, {MadMethod::GetMulti});
  registration.handles_segments = true;
  EXPECT_FALSE(gsi.register_agent(registration, nullptr));
  const auto agent = gsi.register_agent(registration, &taker);
  Listener listener;
  const auto asked =
      gsi.send(*agent, {.lid = kThere}, request_of(ManagementClass::SubnAdm, MadMethod::GetTable),
               {.tid_low = 7}, listener.handler(), Instant{});
  ASSERT_TRUE(asked);
  const std::uint64_t tid = std::uint64_t{agent->value()} << 32 | 7;
  for (std::uint32_t number = 1; number <= 3; ++number) {
    gsi.handle_mad({.lid = kThere}, segment(MadMethod::GetTableResp, tid, number), Instant{});
  }
  ASSERT_EQ(listener.reported.size(), 1U);  // the first ends the transaction
  EXPECT_EQ(rmpp_of(listener.reported[0].answer.mad).data1, 1U);
  ASSERT_EQ(taker.segments.size(), 2U);
  EXPECT_EQ(rmpp_of(taker.segments[1]).data1, 3U);
  gsi.handle_mad({.lid = kThere}, segment(MadMethod::GetMulti, 99, 1), Instant{});
  EXPECT_EQ(taker.segments.size(), 3U);  // of a request, too
  std::size_t sent = 0;
  while (gsi.poll_transmit(Instant{})) {
    ++sent;
  }
  EXPECT_EQ(sent, 1U);  // without any acknowledgement
}

TEST(ProgramAgents, ReadThatTheOtherIsBusyIfTheyWantTo) {
  TestNetwork network;
  ManagementInterface here{InterfaceKind::Gsi};
  ManagementInterface there{InterfaceKind::Gsi};
  network.attach(kHere, here);
  network.attach(kThere, there);
  TestAgent server{[](MadRequest& request) {
    request.message.set_status(wire::kMadStatusBusy);
    return &request.message;
  }};
  ASSERT_TRUE(
      there.register_agent(registration_of(ManagementClass::Perf, {MadMethod::Get}), &server));
  const auto agent = here.register_agent(registration_of(ManagementClass::Perf, {}), nullptr);
  Listener listener;
  ASSERT_TRUE(here.send(*agent, {.lid = kThere}, request_of(ManagementClass::Perf, MadMethod::Get),
                        {.waits_when_busy = false}, listener.handler(), network.now));
  network.run();
  ASSERT_EQ(listener.reported.size(), 1U);
  EXPECT_EQ(listener.reported[0].answer.status(), wire::kMadStatusBusy);
  EXPECT_EQ(server.requests, 1);
}

}  // namespace
}  // namespace weft::mad
