#include "core/mad/mad_agent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "core/mad/mad_port.h"
#include "core/mad/mad_service.h"
#include "core/testing/fake_driver.h"
#include "core/testing/mad_network.h"
#include "core/testing/manual_environment.h"

namespace weft::core {
namespace {

using ::testing::ElementsAre;
using testing::FakeDriver;
using verbs::WcStatus;
using wire::MadMethod;

constexpr PortNumber kPort{1};
constexpr auto kPerf = wire::ManagementClass::Perf;

[[nodiscard]] mad::MadMessage message_of(wire::ManagementClass mgmt_class, MadMethod method) {
  mad::MadMessage message;
  message.set_header({.mgmt_class = mgmt_class, .method = method, .attribute_id = 0x12});
  return message;
}

/// Two hosts, whose agents write down what they hear.
class MadAgents : public ::testing::Test {
 protected:
  MadAgents() {
    b_.port.lid = Lid{2};
    EXPECT_TRUE(a_.register_as("a"));
    EXPECT_TRUE(b_.register_as("b"));
    network_.attach(**service_.port(a_.device(), kPort, mad::InterfaceKind::Gsi));
    network_.attach(**service_.port(b_.device(), kPort, mad::InterfaceKind::Gsi));
  }
  ~MadAgents() override {
    registry_.unregister_device(a_.device());
    registry_.unregister_device(b_.device());
  }

  [[nodiscard]] MadAgent& client() {
    return **register_mad_agent(
        service_, a_.device(), kPort,
        {
            .registration = {.mgmt_class = kPerf, .name = "client"},
            .on_receive = [this](MadAgent&, const MadReceived& mad) { received_.push_back(mad); },
            .on_sent =
                [this](MadAgent&, const MadSendDone& done) {
                  done_.push_back(done);
                  received_before_done_.push_back(received_.size());
                             }
    });
  }
  /// Answers each request with status 0, as long as `answers_`.
  [[nodiscard]] MadAgent& server() {
    return **register_mad_agent(service_, b_.device(), kPort,
                                {
                                    .registration = {.mgmt_class = kPerf,
                                                     .methods = mad::methods({MadMethod::Get}),
                                                     .name = "server"},
                                    .on_receive = [this](MadAgent& agent, const MadReceived& mad) {
                                      ++requests_;
                                      if (answers_) {
                                        MadSend answer{.to = mad.source, .message = mad.message};
                                        mad::convert_to_response(answer.message);
                                        EXPECT_TRUE(post_mad(agent, std::move(answer)));
                                      }
                                                     }
    });
  }
  [[nodiscard]] static MadSend request(std::uint64_t context = 0) {
    return {.to = {.lid = Lid{2}},
            .message = message_of(kPerf, MadMethod::Get),
            .timeout = Duration::milliseconds(100),
            .retries = 2,
            .context = context};
  }
  [[nodiscard]] std::vector<WcStatus> statuses() const {
    std::vector<WcStatus> all;
    for (const MadSendDone& done : done_) {
      all.push_back(done.status);
    }
    return all;
  }

  testing::ManualEnvironment environment_;
  Registry registry_{environment_};
  testing::MadNetwork network_;
  MadService service_{registry_, network_};
  FakeDriver a_{registry_};
  FakeDriver b_{registry_};
  bool answers_{true};
  unsigned requests_{};
  std::vector<MadReceived> received_;
  std::vector<MadSendDone> done_;
  std::vector<std::size_t> received_before_done_;
};

TEST_F(MadAgents, AreToldOfTheAnswerAndThenThatTheSendIsDone) {
  MadAgent& from = client();
  MadAgent& to = server();
  const auto send = post_mad(from, request(77));
  ASSERT_TRUE(send);
  EXPECT_TRUE(done_.empty());  // never inside the call
  environment_.run_all();
  ASSERT_EQ(received_.size(), 1U);
  EXPECT_EQ(received_[0].answers, *send);
  EXPECT_EQ(received_[0].source.lid, Lid{2});
  EXPECT_EQ(received_[0].message.header().transaction_id >> 32, from.transaction_id_high());
  ASSERT_EQ(done_.size(), 1U);
  EXPECT_EQ(done_[0].send, *send);
  EXPECT_EQ(done_[0].context, 77U);
  EXPECT_EQ(done_[0].status, WcStatus::Success);
  EXPECT_THAT(received_before_done_, ElementsAre(1U));
  unregister_mad_agent(from);
  unregister_mad_agent(to);
}

TEST_F(MadAgents, AreToldOfATimeoutAfterAllRetries) {
  answers_ = false;
  MadAgent& from = client();
  MadAgent& to = server();
  ASSERT_TRUE(post_mad(from, request()));
  environment_.advance(Duration::milliseconds(299));
  EXPECT_TRUE(done_.empty());
  environment_.advance(Duration::milliseconds(2));
  EXPECT_THAT(statuses(), ElementsAre(WcStatus::ResponseTimeout));
  EXPECT_EQ(done_[0].sends, 3U);
  EXPECT_EQ(requests_, 3U);
  unregister_mad_agent(from);
  unregister_mad_agent(to);
}

TEST_F(MadAgents, CancelASendOnceAndHearNothingOfItLater) {
  MadAgent& from = client();
  MadAgent& to = server();
  const auto send = post_mad(from, request());
  cancel_mad(from, *send);
  cancel_mad(from, *send);
  cancel_mad(from, MadSendId{99});
  environment_.run_all();
  EXPECT_THAT(statuses(), ElementsAre(WcStatus::WorkRequestFlushed));
  EXPECT_TRUE(received_.empty());
  EXPECT_EQ(modify_mad(from, *send, Duration::seconds(1)).error().code, ErrorCode::NotFound);
  unregister_mad_agent(from);
  unregister_mad_agent(to);
}

TEST_F(MadAgents, WaitLongerForAnAnswerWhenTheyAreModified) {
  answers_ = false;
  MadAgent& from = client();
  MadAgent& to = server();
  MadSend once = request();
  once.retries = 0;
  const auto send = post_mad(from, std::move(once));
  ASSERT_TRUE(modify_mad(from, *send, Duration::seconds(1)));
  environment_.advance(Duration::milliseconds(999));
  EXPECT_TRUE(done_.empty());
  environment_.advance(Duration::milliseconds(2));
  EXPECT_THAT(statuses(), ElementsAre(WcStatus::ResponseTimeout));
  unregister_mad_agent(from);
  unregister_mad_agent(to);
}

TEST_F(MadAgents, FlushTheirSendsWhenTheyAreUnregisteredAndHearNothingAfterwards) {
  answers_ = false;
  MadAgent& from = client();
  for (unsigned i = 0; i < 3; ++i) {
    ASSERT_TRUE(post_mad(from, request(i)));
  }
  unregister_mad_agent(from);
  EXPECT_THAT(statuses(), ElementsAre(WcStatus::WorkRequestFlushed, WcStatus::WorkRequestFlushed,
                                      WcStatus::WorkRequestFlushed));
  environment_.advance(Duration::seconds(1));
  EXPECT_EQ(done_.size(), 3U);
}

TEST_F(MadAgents, SendMessagesOfAnyLengthInSegments) {
  std::vector<MadReceived> whole;
  MadAgent& from = **register_mad_agent(
      service_, a_.device(), kPort,
      {
          .registration = {.mgmt_class = wire::ManagementClass::SubnAdm,
                           .class_version = 2,
                           .name = "client"},
          .on_receive = [&](MadAgent&, const MadReceived& mad) { whole.push_back(mad); }
  });
  std::vector<std::byte> table(10'000);
  for (std::size_t i = 0; i < table.size(); ++i) {
    table[i] = static_cast<std::byte>(i * 7);
  }
  MadAgent& to =
      **register_mad_agent(service_, b_.device(), kPort,
                           {
                               .registration = {.mgmt_class = wire::ManagementClass::SubnAdm,
                                                .class_version = 2,
                                                .methods = mad::methods({MadMethod::GetTable}),
                                                .name = "server"},
                               .on_receive = [&](MadAgent& agent, const MadReceived& mad) {
                                 MadSend answer{.to = mad.source, .message = mad.message};
                                 mad::convert_to_response(answer.message);
                                 answer.message.is_rmpp = true;
                                 answer.message.data = table;
                                 EXPECT_TRUE(post_mad(agent, std::move(answer)));
                                                }
  });
  MadSend ask = request();
  ask.message.set_header({.mgmt_class = wire::ManagementClass::SubnAdm,
                          .class_version = 2,
                          .method = MadMethod::GetTable,
                          .attribute_id = 0x35});
  ASSERT_TRUE(post_mad(from, std::move(ask)));
  environment_.advance(Duration::seconds(1));
  ASSERT_EQ(whole.size(), 1U);
  EXPECT_EQ(whole[0].message.data, table);
  unregister_mad_agent(from);
  unregister_mad_agent(to);
}

TEST_F(MadAgents, AreRefusedForAPortWithoutThatQpAndForAMethodThatIsTaken) {
  MadAgent& first = server();
  const MadAgentInit again{
      .registration = {
                       .mgmt_class = kPerf, .methods = mad::methods({MadMethod::Get}), .name = "second"}
  };
  EXPECT_FALSE(register_mad_agent(service_, b_.device(), kPort, again));
  for (const PortNumber port : {PortNumber{0}, PortNumber{3}}) {  // T-PORT-2
    EXPECT_EQ(register_mad_agent(service_, b_.device(), port, again).error().code,
              ErrorCode::InvalidArgument);
  }
  FakeDriver roce{registry_, PortCapabilities{PortCapability::ProtocolRoceUdp}};
  ASSERT_TRUE(roce.register_as("roce"));
  EXPECT_EQ(register_mad_agent(service_, roce.device(), kPort, again).error().code,
            ErrorCode::NoSuchDevice);
  registry_.unregister_device(roce.device());
  EXPECT_EQ(register_mad_agent(service_, roce.device(), kPort, again).error().code,
            ErrorCode::NoSuchDevice);
  unregister_mad_agent(first);
}

TEST_F(MadAgents, OfSnoopersSeeWhatIsSentAndWhatComes) {
  using Direction = mad::ManagementInterface::Direction;
  MadAgent& from = client();
  MadAgent& to = server();
  std::vector<Direction> seen;
  MadSnooper& snooper = **register_mad_snooper(
      service_, a_.device(), kPort, mad::InterfaceKind::Gsi,
      [&](Direction direction, const mad::MadAddress& address, ByteSpan bytes) {
        EXPECT_EQ(address.lid, Lid{2});
        EXPECT_EQ(bytes.size(), wire::kMadBytes);
        seen.push_back(direction);
      });
  ASSERT_TRUE(post_mad(from, request()));
  environment_.run_all();
  EXPECT_THAT(seen, ElementsAre(Direction::Sent, Direction::Received));
  unregister_mad_snooper(snooper);
  ASSERT_TRUE(post_mad(from, request()));
  environment_.run_all();
  EXPECT_EQ(seen.size(), 2U);
  unregister_mad_agent(from);
  unregister_mad_agent(to);
}

// R-RVT-2: the agents' requests without a destination follow the subnet manager's address.
TEST_F(MadAgents, SendToTheSubnetManagerThatTheLastEventOfThePortTold) {
  b_.port.sm_lid = Lid{0x77};
  MadPort& port = **service_.port(b_.device(), kPort, mad::InterfaceKind::Gsi);
  const auto manager = [&] {
    return port
        .with_interface(
            [](mad::ManagementInterface& interface, Instant) { return interface.subnet_manager(); })
        .lid;
  };
  EXPECT_EQ(manager(), Lid{});
  dispatch_event({.device = &b_.device(), .type = verbs::AsyncEventType::SmChange, .port = kPort});
  environment_.run_all();
  EXPECT_EQ(manager(), Lid{0x77});
}

}  // namespace
}  // namespace weft::core
