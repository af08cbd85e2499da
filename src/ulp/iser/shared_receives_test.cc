#include "ulp/iser/shared_receives.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "core/testing/engine_pair.h"

namespace weft::iser {
namespace {

using core::testing::connect_end;
using core::testing::CountedRequest;
using core::testing::End;
using core::testing::EngineNetwork;
using core::testing::signaled;

constexpr std::size_t kBytes = 64;

/// The receiving end of a connection, and what sends to it.
class Receiver final : public ChannelClient {
 public:
  void handle_message(ReceiveBuffer& buffer, ByteSpan octets,
                      std::optional<RKey> /*invalidated*/) override {
    numbers.push_back(std::to_integer<unsigned>(octets[0]));
    if (keeps) {
      kept.push_back(&buffer);
    } else {
      channel->give_back(buffer);
    }
  }
  void handle_failure(verbs::WcStatus status) override { failure = status; }
  void handle_room() override {}
  void handle_drained() override { is_drained = true; }
  void give_back() {
    for (ReceiveBuffer* const buffer : std::exchange(kept, {})) {
      channel->give_back(*buffer);
    }
  }

  std::unique_ptr<Channel> channel;
  End sender;
  std::vector<unsigned> numbers;
  std::vector<ReceiveBuffer*> kept;
  bool keeps{};
  bool is_drained{};
  unsigned last_receives{};  // events
  std::optional<verbs::WcStatus> failure;
};

class SharedReceive : public ::testing::Test {
 protected:
  SharedReceive() {
    environment.world = [this] { return network.step(); };
    network.add_host(registry);
    network.add_host(registry);
    pd = *core::allocate_pd(network.host(1).device());
  }
  ~SharedReceive() override {
    for (const auto& receiver : receivers) {
      end(*receiver);
    }
    shared.reset();
    EXPECT_TRUE(core::deallocate_pd(*pd));
    network.unregister_all();
  }

  void share(std::uint32_t first, std::uint32_t most) {
    auto made =
        SharedReceives::create(environment, *pd, {.first = first, .most = most, .bytes = kBytes});
    ASSERT_TRUE(made) << made.error().reason;
    shared = *std::move(made);
  }

  Receiver& connect() {
    auto receiver = std::make_unique<Receiver>();
    core::testing::open_end(receiver->sender, network.host(0).device());
    auto channel =
        Channel::create(*pd,
                        {.send_depth = 4,
                         .shared = shared.get(),
                         .qp_event =
                             [](const core::Event& event, void* context) {
                               if (event.type == verbs::AsyncEventType::QpLastWqeReached) {
                                 ++static_cast<Receiver*>(context)->last_receives;
                               }
                             },
                         .qp_context = receiver.get()},
                        *receiver);
    EXPECT_TRUE(channel) << channel.error().reason;
    receiver->channel = *std::move(channel);
    End own;
    own.qp = &receiver->channel->qp();
    connect_end(own, EngineNetwork::lid_of(0), receiver->sender.qp->number());
    connect_end(receiver->sender, EngineNetwork::lid_of(1), own.qp->number());
    receivers.push_back(std::move(receiver));
    return *receivers.back();
  }

  /// Of the message that is sent now; `request` stays until it is done.
  void begin_send(Receiver& to, unsigned number, CountedRequest& request) {
    to.sender.memory[number] = static_cast<std::byte>(number);
    const std::array from{to.sender.sge(number, 1)};
    ASSERT_TRUE(core::post_send(*to.sender.qp, signaled(request, verbs::WrOpcode::Send, from)));
  }
  void send(Receiver& to, unsigned number) {
    CountedRequest request;
    begin_send(to, number, request);
    environment.wait_until([&] { return request.calls == 1; }, Instant::never());
    EXPECT_EQ(request.status, verbs::WcStatus::Success);
    environment.advance(Duration::milliseconds(1));
  }
  void end(Receiver& receiver) {
    if (receiver.channel != nullptr) {
      receiver.give_back();
      receiver.channel->drain();
      receiver.channel->handle_last_receive();
      environment.wait_until([&] { return receiver.is_drained; }, Instant::never());
      receiver.channel.reset();
      core::testing::close_end(receiver.sender);
    }
  }

  core::testing::ManualEnvironment environment;
  core::Registry registry{environment};
  EngineNetwork network{environment};
  core::Pd* pd{};
  std::unique_ptr<SharedReceives> shared;
  std::vector<std::unique_ptr<Receiver>> receivers;
};

TEST_F(SharedReceive, ManyChannelsTakeTheirMessagesFromFewBuffers) {  // R-SRPT-13
  share(4, 4);
  constexpr unsigned kChannels = 8;
  for (unsigned i = 0; i < kChannels; ++i) {
    std::ignore = connect();
  }
  for (unsigned number = 0; number < 10; ++number) {
    for (unsigned i = 0; i < kChannels; ++i) {
      send(*receivers[i], number * kChannels + i);
    }
  }
  for (unsigned i = 0; i < kChannels; ++i) {
    ASSERT_EQ(receivers[i]->numbers.size(), 10U);
    EXPECT_EQ(receivers[i]->numbers[9], 9 * kChannels + i) << "another channel's message";
    EXPECT_FALSE(receivers[i]->failure.has_value());
  }
  EXPECT_EQ(shared->counters().buffers, 4U);
  EXPECT_EQ(shared->counters().posted, 4U);
}

TEST_F(SharedReceive, MoreAreMadeWhereFewAreLeftUpToTheLimit) {  // R-SRPT-3
  share(4, 16);
  Receiver& busy = connect();
  Receiver& other = connect();
  busy.keeps = true;
  for (unsigned number = 0; number < 15; ++number) {
    send(busy, number);
  }
  EXPECT_EQ(shared->counters().buffers, 16U);
  EXPECT_EQ(shared->counters().limit_events, 2U);
  EXPECT_EQ(shared->counters().posted, 1U);
  send(busy, 15);
  EXPECT_EQ(shared->counters().posted, 0U);
  // There are no more; who sends now waits until a buffer is free, and loses nothing.
  CountedRequest waits;
  begin_send(other, 16, waits);
  environment.advance(Duration::milliseconds(20));
  EXPECT_EQ(waits.calls, 0U);
  busy.give_back();
  environment.wait_until([&] { return waits.calls == 1; }, Instant::never());
  EXPECT_EQ(waits.status, verbs::WcStatus::Success);
  environment.advance(Duration::milliseconds(1));
  EXPECT_EQ(other.numbers, std::vector<unsigned>{16});
  EXPECT_EQ(shared->counters().buffers, 16U);
  EXPECT_EQ(shared->counters().errors, 0U);
}

TEST_F(SharedReceive, AChannelIsDrainedAfterItsLastReceiveAndTheOthersGoOn) {  // R-SRPT-3
  share(4, 4);
  Receiver& ends = connect();
  Receiver& stays = connect();
  send(ends, 1);
  ends.channel->drain();
  environment.advance(Duration::milliseconds(10));
  EXPECT_EQ(ends.last_receives, 1U) << "the QP in error takes no receive any more, and says so";
  EXPECT_FALSE(ends.is_drained);
  ends.channel->handle_last_receive();
  environment.wait_until([&] { return ends.is_drained; }, Instant::never());
  ends.channel->handle_last_receive();  // again: nothing
  send(stays, 2);
  EXPECT_EQ(stays.numbers, std::vector<unsigned>{2});
  EXPECT_EQ(shared->counters().posted, 4U) << "the channel that ended has kept none";
}

}  // namespace
}  // namespace weft::iser
