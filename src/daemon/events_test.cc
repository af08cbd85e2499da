// State after a program wakes up for a completion event, and that it wakes up.

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "daemon/testing/live_program.h"
#include "host/deferred_events.h"
#include "host/lane.h"

namespace weft::daemon {
namespace {

using testing::LiveFabric;
using testing::Program;

[[nodiscard]] bool comes_true(const std::function<bool()>& condition) {
  const Instant deadline = os::now() + Duration::seconds(5);
  while (!condition()) {
    if (os::now() > deadline) {
      return false;
    }
    std::this_thread::yield();
  }
  return true;
}

void connect(Program& left, hca::Qp& left_qp, Program& right, hca::Qp& right_qp) {
  left.connect(left_qp, right.lid(), right_qp.number(), 14, 7);
  right.connect(right_qp, left.lid(), left_qp.number(), 14, 7);
}

void receive_into(Program& program, hca::Qp& qp) {
  const hca::Sge sge{.address = program.address(), .length = 64, .lkey = program.region->lkey};
  ASSERT_TRUE(qp.post_recv({
      .wr_id = 1, .sges = {&sge, 1}
  }));
}

TEST(Events, AMessageIsAcknowledgedBeforeItsEventComes) {
  LiveFabric fabric{"pair"};
  Program sender{fabric.on("h1")};
  Program receiver{fabric.on("h2")};
  connect(sender, *sender.qp, receiver, *receiver.qp);
  receiver.receive(0, 64);
  std::atomic<int> acknowledged{-1};
  receiver.events.at_completion = [&] {
    acknowledged = comes_true([&] { return !sender.cq->is_empty(); }) ? 1 : 0;
  };
  receiver.cq->arm(false);
  sender.post(hca::WrOpcode::Send, 0, 64);
  EXPECT_TRUE(comes_true([&] { return acknowledged >= 0; }));
  EXPECT_EQ(acknowledged, 1);
}

/// The thread of h1 is busy while an ACK and then an answer come, by lanes of which it looks at
/// either first.
void answer_after_ack(unsigned shift) {
  LiveFabric fabric{"pair"};
  Program one{fabric.on("h1")};
  Program other{fabric.on("h2")};
  hca::CompletionQueue* const sent = *one.process->create_cq(0, 16);
  hca::CompletionQueue* const answered = *one.process->create_cq(0, 16);
  hca::QpInit init = one.init;
  init.recv_cq = answered;
  for (unsigned i = 0; i < shift; ++i) {
    ASSERT_TRUE(one.process->create_qp(0, init));  // one lane further
  }
  hca::Qp* const in = *one.process->create_qp(0, init);
  init.send_cq = sent;
  hca::Qp* const out = *one.process->create_qp(0, init);
  hca::Qp* const answering = *other.process->create_qp(0, other.init);
  connect(one, *one.qp, other, *other.qp);
  connect(one, *out, other, *other.bulk_qp);
  connect(one, *in, other, *answering);
  one.receive(0, 64);
  receive_into(one, *in);
  receive_into(other, *other.bulk_qp);

  std::atomic<int> events{0};
  std::atomic<bool> may_go_on{false};
  std::atomic<bool> has_acknowledgement{false};
  one.events.at_completion = [&] {
    if (++events == 1) {
      EXPECT_TRUE(comes_true([&] { return may_go_on.load(); }));
    } else {
      has_acknowledgement = !sent->is_empty();
      ++events;
    }
  };
  one.cq->arm(false);
  other.post(hca::WrOpcode::Send, 0, 64);  // keeps the thread of h1 busy
  ASSERT_TRUE(comes_true([&] { return events == 1; }));
  EXPECT_EQ(other.wait().status, hca::WcStatus::Success);
  answered->arm(false);
  std::atomic<bool> has_come{false};
  other.events.at_completion = [&] { has_come = true; };
  other.cq->arm(false);
  one.post(*out, hca::WrOpcode::Send, 0, 64);
  ASSERT_TRUE(comes_true([&] { return has_come.load(); }));
  other.post(*answering, hca::WrOpcode::Send, 0, 64);
  may_go_on = true;
  ASSERT_TRUE(comes_true([&] { return events == 3; }));
  EXPECT_TRUE(has_acknowledgement) << "with " << shift << " QPs before";
}

TEST(Events, AnAnswerDoesNotOvertakeTheAckByAnotherLane) {
  for (unsigned shift = 0; shift < host::kLanesPerPair; ++shift) {
    answer_after_ack(shift);
  }
}

}  // namespace
}  // namespace weft::daemon
