#include "ulp/iser/send_queue.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "core/cq.h"
#include "core/testing/fake_driver.h"
#include "core/testing/manual_environment.h"

namespace weft::iser {
namespace {

constexpr std::uint32_t kDepth = 8;

/// What the fake QP was asked to send, and how much more it takes.
struct Posts {
  std::vector<std::uint64_t> sent;  // remote addresses, which tell requests apart
  unsigned calls{};
  std::size_t most{~std::size_t{0}};
};
Posts posts;

void with_qps(core::DeviceInit& init) {
  init.operations.create_qp = [](core::Qp&, const core::QpInit&) { return Result<void>{}; };
  init.operations.destroy_qp = [](core::Qp&) { return Result<void>{}; };
  init.operations.post_send = [](core::Qp&, const core::SendWr& first,
                                 const core::SendWr** bad) -> Result<void> {
    ++posts.calls;
    for (const core::SendWr* wr = &first; wr != nullptr; wr = wr->next) {
      if (posts.sent.size() == posts.most) {
        *bad = wr;
        return fail(ErrorCode::OutOfMemory, "the test wants it so");
      }
      posts.sent.push_back(wr->remote_address);
    }
    return {};
  };
}

class SendQueueTest : public ::testing::Test {
 protected:
  SendQueueTest() {
    posts = {};
    driver_.attributes.max_qp_wr = 2 * kDepth;
    EXPECT_TRUE(driver_.register_as("X"));
    pd_ = *core::allocate_pd(driver_.device(), {}, "test");
    cq_ = *core::allocate_cq(driver_.device(), {.entries = 2 * kDepth});
    core::QpInit init;
    init.send_cq = init.recv_cq = cq_;
    init.capabilities = {.max_send_wr = kDepth + 1};
    qp_ = *core::create_qp(*pd_, init);
    sends_ = std::make_unique<SendQueue>(
        *qp_, SendQueue::Options{.depth = kDepth, .signal_interval = kDepth},
        [](verbs::WcStatus /*status*/) {});
  }
  ~SendQueueTest() override {
    sends_.reset();
    EXPECT_TRUE(core::destroy_qp(*qp_));
    EXPECT_TRUE(core::free_cq(*cq_));
    EXPECT_TRUE(core::deallocate_pd(*pd_));
    registry_.unregister_device(driver_.device());
  }
  [[nodiscard]] static SendRequests requests(std::uint64_t first, std::size_t count) {
    SendRequests made;
    for (std::size_t i = 0; i < count; ++i) {
      made.push_back(std::make_unique<SendRequest>());
      made.back()->wr.opcode = verbs::WrOpcode::RdmaWrite;
      made.back()->wr.remote_address = first + i;
    }
    return made;
  }
  [[nodiscard]] static std::vector<std::uint64_t> numbers_of(const SendRequests& requests) {
    std::vector<std::uint64_t> numbers;
    for (const auto& request : requests) {
      numbers.push_back(request->wr.remote_address);
    }
    return numbers;
  }

  core::testing::ManualEnvironment environment_;
  core::Registry registry_{environment_};
  core::testing::FakeDriver driver_{registry_, core::kInfinibandPort, with_qps};
  core::Pd* pd_{};
  core::Cq* cq_{};
  core::Qp* qp_{};
  std::unique_ptr<SendQueue> sends_;
};

using Numbers = std::vector<std::uint64_t>;

TEST_F(SendQueueTest, PostsAChainByOneCall) {
  ASSERT_TRUE(sends_->post(requests(1, 3)));
  EXPECT_EQ(posts.sent, (Numbers{1, 2, 3}));
  EXPECT_EQ(posts.calls, 1U);
  EXPECT_EQ(sends_->room(), kDepth - 3);
}

TEST_F(SendQueueTest, GivesBackInOrderWhatTheDriverRefuses) {
  posts.most = 2;
  SendRequests refused;
  EXPECT_FALSE(sends_->post(requests(1, 5), &refused));
  EXPECT_EQ(posts.sent, (Numbers{1, 2}));
  EXPECT_EQ(numbers_of(refused), (Numbers{3, 4, 5}));
  EXPECT_EQ(sends_->room(), kDepth - 2) << "those before are on their way";
}

TEST_F(SendQueueTest, GivesBackAllOfAChainForWhichItHasNoRoom) {
  ASSERT_TRUE(sends_->post(requests(1, kDepth - 1)));
  SendRequests refused;
  const auto posted = sends_->post(requests(20, 2), &refused);
  ASSERT_FALSE(posted);
  EXPECT_EQ(posted.error().code, ErrorCode::TryAgain);
  EXPECT_EQ(numbers_of(refused), (Numbers{20, 21}));
  EXPECT_EQ(posts.calls, 1U);
}

TEST_F(SendQueueTest, HandsOutAgainAsNewWhatWasRetired) {
  unsigned ended = 0;
  SendRequests chain;
  chain.push_back(sends_->take());
  SendRequest& request = *chain.front();
  request.wr.opcode = verbs::WrOpcode::Send;
  request.wr.invalidate_rkey = RKey{7};
  request.octets.resize(100);
  request.sges.push_back({.length = 100});
  request.must_signal = true;
  request.done = [&](verbs::WcStatus /*status*/) { ++ended; };
  ASSERT_TRUE(sends_->post(chain));
  EXPECT_TRUE(chain.empty());
  core::Wc wc;
  wc.wr_id = core::wr_id_of(request.handler);
  request.handler.done(*cq_, wc);
  EXPECT_EQ(ended, 1U);

  const auto again = sends_->take();
  EXPECT_EQ(again.get(), &request);
  EXPECT_EQ(again->wr.invalidate_rkey, RKey{});
  EXPECT_FALSE(again->wr.flags.has(verbs::Send::Signaled));
  EXPECT_TRUE(again->octets.empty());
  EXPECT_TRUE(again->sges.empty());
  EXPECT_FALSE(again->must_signal);
  EXPECT_FALSE(again->done);
  EXPECT_NE(sends_->take(), nullptr);  // beyond what was retired: another one
}

}  // namespace
}  // namespace weft::iser
