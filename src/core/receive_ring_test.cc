#include "core/receive_ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "core/testing/engine_pair.h"
#include "core/testing/fake_driver.h"

namespace weft::core {
namespace {

using testing::CountedRequest;
using testing::EnginePair;
using testing::FakeDriver;
using testing::signaled;

constexpr std::uint32_t kMadBytes = 256;

/// What a ring's handler was called with.
struct Inbox {
  std::vector<unsigned> numbers;  // the first octets of each message
  std::size_t bytes{};            // of the last one

  static void take(void* context, const Wc& /*wc*/, ByteSpan data) {
    auto* const self = static_cast<Inbox*>(context);
    self->numbers.push_back(std::to_integer<unsigned>(data[0]) << 8 |
                            std::to_integer<unsigned>(data[1]));
    self->bytes = data.size();
  }
};

[[nodiscard]] ReceiveRing::Init ring_of_four(Inbox& inbox) {
  return {.buffers = 4, .buffer_bytes = kMadBytes, .handler = Inbox::take, .context = &inbox};
}

/// Sends messages one after the other, each with its number in front.
void send_numbers(EnginePair& pair, unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    pair.a.memory[0] = static_cast<std::byte>(i >> 8);
    pair.a.memory[1] = static_cast<std::byte>(i & 0xFF);
    CountedRequest send;
    const std::array from{pair.a.sge(0, kMadBytes)};
    ASSERT_TRUE(post_send(*pair.a.qp, signaled(send, verbs::WrOpcode::Send, from)));
    pair.environment.wait_until([&] { return send.calls == 1; }, Instant::never());
  }
  pair.environment.advance(Duration::milliseconds(1));
}

/// As the end of a ring's user does.
void empty(Qp& qp, ReceiveRing& ring) {
  QpModify to_error{.mask = verbs::QpAttribute::State};
  to_error.attributes.state = verbs::QpState::Err;
  ASSERT_TRUE(modify_qp(qp, to_error));
  ring.wait_empty();
}

// T-MI-7, R-MI-12: datagrams, which nothing would repeat, and nobody polls but the core.
TEST(ReceiveRings, LoseNoneOfAThousandDatagramsWithFourBuffers) {
  EnginePair pair{{.type = verbs::QpType::Ud}};
  Inbox inbox;
  const auto ring = ReceiveRing::make(*pair.b.qp, ring_of_four(inbox));
  ASSERT_TRUE(ring) << ring.error().reason;
  ASSERT_TRUE((*ring)->fill());
  EXPECT_EQ((*ring)->posted(), 4U);
  constexpr unsigned kMessages = 1'000;
  send_numbers(pair, kMessages);
  ASSERT_EQ(inbox.numbers.size(), kMessages);
  for (unsigned i = 0; i < kMessages; ++i) {
    EXPECT_EQ(inbox.numbers[i], i);
  }
  EXPECT_EQ(inbox.bytes, kMadBytes);  // without the GRH's room
  EXPECT_EQ((*ring)->posted(), 4U);
  empty(*pair.b.qp, **ring);
}

TEST(ReceiveRings, ComeBackWholeFromAQpInErrorAndAreNotPostedAgain) {
  EnginePair pair;
  Inbox inbox;
  const auto ring = ReceiveRing::make(*pair.b.qp, ring_of_four(inbox));
  ASSERT_TRUE((*ring)->fill());
  send_numbers(pair, 9);
  EXPECT_EQ(inbox.numbers.size(), 9U);
  empty(*pair.b.qp, **ring);
  EXPECT_EQ((*ring)->posted(), 0U);
  EXPECT_EQ(inbox.numbers.size(), 9U);  // nobody is told of flushed buffers
}

TEST(ReceiveRings, AreRefusedWhereTheCoreDoesNotPollOrNothingCouldBeTold) {
  EnginePair pair;
  Inbox inbox;
  const auto code_of = [&](Qp& qp, const ReceiveRing::Init& init) {
    return ReceiveRing::make(qp, init).error().code;
  };
  ReceiveRing::Init init = ring_of_four(inbox);
  init.buffers = 100'000;
  EXPECT_EQ(code_of(*pair.b.qp, init), ErrorCode::InvalidArgument);
  init.buffers = 0;
  EXPECT_EQ(code_of(*pair.b.qp, init), ErrorCode::InvalidArgument);
  init = ring_of_four(inbox);
  init.handler = nullptr;
  EXPECT_EQ(code_of(*pair.b.qp, init), ErrorCode::InvalidArgument);

  Cq* const own = *create_cq(*pair.b.device, {.entries = 16});
  QpInit with_own_cq;
  with_own_cq.send_cq = own;
  with_own_cq.recv_cq = own;
  with_own_cq.capabilities = {
      .max_send_wr = 1, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1};
  Qp* const qp = *create_qp(*pair.b.pd, with_own_cq);
  EXPECT_EQ(code_of(*qp, ring_of_four(inbox)), ErrorCode::InvalidArgument);
  ASSERT_TRUE(destroy_qp(*qp));
  ASSERT_TRUE(destroy_cq(*own));
}

// R-MI-11: one poll for all, of those CQs only whose event has come.
TEST(EventPolls, LookAtTheCqsWhoseEventCameAndAtNoOthers) {
  testing::ManualEnvironment environment;
  Registry registry{environment};
  FakeDriver driver{registry};
  ASSERT_TRUE(driver.register_as("X"));
  struct Told {
    CompletionHandler handler{.done = done};  // first: found by its address
    unsigned calls{};
    static void done(Cq& /*cq*/, const Wc& wc) {
      ++static_cast<Told*>(static_cast<void*>(wc.handler()))->calls;
    }
  };
  Told first;
  Told second;
  Cq* const busy = *allocate_cq(driver.device(), {.entries = 16});
  Cq* const idle = *allocate_cq(driver.device(), {.entries = 16});
  environment.run_all();
  const unsigned idle_polls = driver.fake(*idle).polls;
  driver.complete(*busy, &first.handler);
  driver.complete(*busy, &second.handler);
  EXPECT_EQ(first.calls, 0U);  // nobody but the core polls
  environment.run_all();
  EXPECT_EQ(first.calls, 1U);
  EXPECT_EQ(second.calls, 1U);
  EXPECT_GT(driver.fake(*busy).polls, 0U);
  EXPECT_EQ(driver.fake(*idle).polls, idle_polls);
  EXPECT_TRUE(free_cq(*busy));
  EXPECT_TRUE(free_cq(*idle));
  registry.unregister_device(driver.device());
}

}  // namespace
}  // namespace weft::core
