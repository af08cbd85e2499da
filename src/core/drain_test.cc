#include "core/drain.h"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "core/testing/engine_pair.h"
#include "core/testing/fake_driver.h"

namespace weft::core {
namespace {

using testing::CountedRequest;
using testing::EnginePair;
using testing::signaled;

/// Posts `count` sends to a peer that is dead.
void post_into_the_void(EnginePair& pair, std::deque<CountedRequest>& requests, int count,
                        std::vector<int>* order = nullptr) {
  pair.network.filter = [](const testing::EngineNetwork::Flight&) { return false; };
  for (int i = 0; i < count; ++i) {
    requests.push_back({.number = i, .order = order});
    ASSERT_TRUE(post_send(*pair.a.qp, signaled(requests.back(), verbs::WrOpcode::Send)));
  }
}

// T-DRN-1
TEST(Drain, EndsWhenEachOfAThousandSendsToADeadPeerHasBeenConsumed) {
  EnginePair pair{{.depth = 1'100}};
  std::vector<int> order;
  std::deque<CountedRequest> requests;
  post_into_the_void(pair, requests, 1'000, &order);
  const auto drained = drain_qp(*pair.a.qp);
  ASSERT_TRUE(drained) << drained.error().reason;
  ASSERT_EQ(order.size(), 1'000U);
  for (int i = 0; i < 1'000; ++i) {
    EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
    EXPECT_EQ(requests[static_cast<std::size_t>(i)].status, verbs::WcStatus::WorkRequestFlushed);
  }
  pair.environment.advance(Duration::seconds(10));
  EXPECT_EQ(order.size(), 1'000U);
}

// T-DRN-2
TEST(Drain, PollsADirectCqItself) {
  EnginePair pair{{.poll_context = PollContext::Direct}};
  std::deque<CountedRequest> requests;
  post_into_the_void(pair, requests, 5);
  std::deque<CountedRequest> receives(3);
  for (CountedRequest& receive : receives) {
    ASSERT_TRUE(post_recv(*pair.a.qp, {.wr_id = wr_id_of(receive.handler)}));
  }
  ASSERT_TRUE(drain_qp(*pair.a.qp));
  for (const CountedRequest& request : requests) {
    EXPECT_EQ(request.calls, 1U);
  }
  for (const CountedRequest& receive : receives) {
    EXPECT_EQ(receive.calls, 1U);
    EXPECT_EQ(receive.status, verbs::WcStatus::WorkRequestFlushed);
  }
}

/// On a virtual clock; tests/core has it with threads that sleep.
struct SlowRequest {
  CompletionHandler handler{.done = done};
  testing::ManualEnvironment* environment{};
  unsigned* returned{};
  static void done(Cq& /*cq*/, const Wc& wc) {
    auto* const self = static_cast<SlowRequest*>(static_cast<void*>(wc.handler()));
    self->environment->wait_until([] { return false; },
                                  self->environment->now() + Duration::milliseconds(10));
    ++*self->returned;
  }
};

TEST(Drain, ReturnsAfterTheLastSlowHandlerHas) {
  EnginePair pair;
  pair.network.filter = [](const testing::EngineNetwork::Flight&) { return false; };
  unsigned returned = 0;
  std::deque<SlowRequest> requests;
  const Instant start = pair.environment.now();
  for (int i = 0; i < 20; ++i) {
    requests.push_back({.environment = &pair.environment, .returned = &returned});
    SendWr wr;
    wr.wr_id = wr_id_of(requests.back().handler);
    wr.flags = verbs::Send::Signaled;
    ASSERT_TRUE(post_send(*pair.a.qp, wr));
  }
  ASSERT_TRUE(drain_sq(*pair.a.qp));
  EXPECT_EQ(returned, 20U);
  EXPECT_GE(pair.environment.now() - start, Duration::milliseconds(200));
}

TEST(Drain, LeavesAnSrqAlone) {
  EnginePair pair;
  SrqInit srq_init{
      .attributes = {.max_wr = 8, .max_sge = 1, .limit = 0}
  };
  Srq* const srq = *create_srq(*pair.a.pd, srq_init);
  testing::End end;
  testing::open_end(end, *pair.a.device, {.srq = srq});
  testing::connect_end(end, testing::EngineNetwork::lid_of(1), pair.b.qp->number());
  CountedRequest receive;
  ASSERT_TRUE(post_srq_recv(*srq, {.wr_id = wr_id_of(receive.handler)}));
  EXPECT_EQ(drain_rq(*end.qp).error().code, ErrorCode::InvalidArgument);
  EXPECT_TRUE(drain_qp(*end.qp));
  EXPECT_EQ(receive.calls, 0U);
  EXPECT_EQ(destroy_srq(*srq).error().code, ErrorCode::Busy);
  testing::close_end(end);
  EXPECT_TRUE(destroy_srq(*srq));
}

TEST(Drain, OfADatagramQpNeedsNoDestination) {
  EnginePair pair;
  testing::End end;
  testing::open_end(end, *pair.a.device, {.type = verbs::QpType::Ud});
  QpFields fields;
  fields.state = verbs::QpState::Rts;
  fields.attributes.port = PortNumber{1};
  ASSERT_TRUE(apply_qp_fields(*end.qp, fields));
  const auto drained = drain_qp(*end.qp);
  EXPECT_TRUE(drained) << drained.error().reason;
  testing::close_end(end);
}

TEST(Drain, IsRefusedWithoutAManagedCq) {
  EnginePair pair{{.depth = 4}};
  Cq* const own = *create_cq(*pair.a.device, {.entries = 8});
  QpInit init;
  init.send_cq = own;
  init.recv_cq = own;
  init.capabilities = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1};
  Qp* const qp = *create_qp(*pair.a.pd, init);
  EXPECT_EQ(drain_sq(*qp).error().code, ErrorCode::InvalidArgument);
  EXPECT_TRUE(destroy_qp(*qp));
  EXPECT_TRUE(destroy_cq(*own));
}

}  // namespace
}  // namespace weft::core
